// Tests that a former name of a field is refused in a user's job file, with a message that gives the present
// name. In the job of a run the former name is accepted. Every row of the table is tested.
#include "runtime/job/renamed_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/file.h"
#include "runtime/job/job.h"
#include "tests/runtime/job/job_text.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::MatchesRegex;
using ::testing::StartsWith;

struct Row {
  const char* former;
  const char* now;
  const char* value;     // The text after the field's name in the job file of a run.
  const char* override;  // The text after the former or the present path in --set.
};

std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.former; }

constexpr Row kRows[] = {
    {"data.prefetch_batches", "tuning.prefetch_batches", ": 3", "=3"},
    {"device.graph", "tuning.graph", ": false", "=false"},
    {"resources", "tuning.resources", " {\n  interval_seconds: 2\n}", ".interval_seconds=2"},
    {"strategy.mirrored.bucket_bytes", "tuning.bucket_bytes", ": 4096", "=4096"},
    {"strategy.mirrored.transport", "tuning.transport", ": TCP", "=TCP"},
    {"strategy.parameter_server.message_bytes", "tuning.message_bytes", ": 4096", "=4096"},
    {"strategy.parameter_server.partitioner", "tuning.partitioner", " {\n  fixed {\n    shards: 2\n  }\n}",
     ".fixed.shards=2"},
};

// Flags that choose the strategy to which the row's field belonged, and that give the loader a thread which
// can build batches ahead.
std::vector<std::string> Flags(const Row& row) {
  const bool mirrored = absl::StartsWith(row.former, "strategy.mirrored");
  return {mirrored ? "strategy=mirrored" : "strategy=parameter_server", "data.loader_threads=1"};
}

// The text that an earlier version wrote into a run for `job`: the row's field has its former name.
std::string WrittenBefore(const Row& row, const proto::Job& job) {
  std::vector<std::string> lines = absl::StrSplit(ResolvedText(job), '\n');
  const std::vector<std::string> path = absl::StrSplit(row.former, '.');
  auto at = lines.begin();
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    at = std::find(at, lines.end(), absl::StrCat(std::string(2 * i, ' '), path[i], " {"));
    if (at != lines.end()) ++at;
  }
  EXPECT_NE(at, lines.end()) << row.former;
  if (at != lines.end()) lines.insert(at, absl::StrCat(path.back(), row.value));
  return absl::StrJoin(lines, "\n");
}

absl::StatusOr<proto::Job> RunJob(const std::string& text) {
  const testing::TempDirectory directory;
  const std::string path = directory.path() + "/job.textproto";
  EXPECT_TRUE(WriteFileAtomically(path, text).ok());
  return LoadRunJob(path, {});
}

class RenamedFieldTest : public ::testing::TestWithParam<Row> {};
INSTANTIATE_TEST_SUITE_P(Rows, RenamedFieldTest, ::testing::ValuesIn(kRows));

TEST_P(RenamedFieldTest, FormerFieldNameInAJobFileIsRefusedWithPlaceAndPresentName) {
  const Row& row = GetParam();
  const std::vector<std::string> path = absl::StrSplit(row.former, '.');
  std::string text = absl::StrCat(path.back(), row.value);
  for (size_t i = path.size() - 1; i-- > 0;) text = absl::StrCat(path[i], " { ", text, " }");
  EXPECT_THAT(
      ErrorOf(absl::StrCat("epochs: 5\n", text)),
      MatchesRegex(absl::StrCat("my.textproto:2:[0-9]+: '", path.back(), "' is now '", row.now, "'")));
}

TEST_P(RenamedFieldTest, FormerFieldNameInAFlagIsRefusedWithThePresentName) {
  const Row& row = GetParam();
  const std::string rest(row.override, std::string(row.override).find('='));
  const std::string error = absl::StrCat(": '", row.former, rest, "' is now '", row.now, rest, "'");
  const std::string flag = absl::StrCat(row.former, row.override);
  EXPECT_EQ(ErrorOf(kJob, {flag}), absl::StrCat("--set=", flag, error));
  const testing::TempDirectory directory;
  const std::string path = directory.path() + "/my.textproto";
  ASSERT_TRUE(WriteFileAtomically(path, kJob).ok());
  EXPECT_EQ(LoadJobVariant(path, {}, {flag}).status().message(), absl::StrCat("--vary=", flag, error));
}

TEST_P(RenamedFieldTest, FormerFieldNameInTheJobFileOfARunIsUnderstood) {
  const Row& row = GetParam();
  std::vector<std::string> flags = Flags(row);
  proto::Job job = Parsed(kJob, flags);
  flags.push_back(absl::StrCat(row.now, row.override));
  const proto::Job expected = Parsed(kJob, flags);
  job.clear_tuning();
  const absl::StatusOr<proto::Job> read = RunJob(WrittenBefore(row, job));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ResolvedText(*read), ResolvedText(expected));
}

TEST(RenamedFieldsTest, EveryRowOfTheTableOfRenamedFieldsIsTested) {
  std::vector<std::string> tested, rows;
  for (const Row& row : kRows) tested.push_back(absl::StrCat(row.former, " ", row.now));
  for (const RenamedField& row : RenamedFields()) rows.push_back(absl::StrCat(row.former, " ", row.now));
  EXPECT_EQ(tested, rows);
}

TEST(RenamedFieldsTest, JobFileOfARunWithAllFormerFieldNamesIsUnderstood) {
  proto::Job job = Parsed(kJob, {"data.loader_threads=1"});
  job.clear_tuning();
  const std::string text = absl::StrReplaceAll(
      ResolvedText(job), {{"data {\n", "data {\n  prefetch_batches: 2\n"},
                          {"device {\n", "device {\n  graph: false\n"},
                          {"  parameter_server {\n",
                           "  parameter_server {\n    message_bytes: 4096\n    partitioner {\n"
                           "      max_size {\n        max_shard_bytes: 512\n      }\n    }\n"},
                          {"timeouts {\n", "resources {\n  interval_seconds: 0\n}\ntimeouts {\n"}});
  const absl::StatusOr<proto::Job> read = RunJob(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ResolvedText(*read),
            ResolvedText(
                Parsed(kJob, {"data.loader_threads=1", "tuning.prefetch_batches=2", "tuning.graph=false",
                              "tuning.message_bytes=4096", "tuning.partitioner.max_size.max_shard_bytes=512",
                              "tuning.resources.interval_seconds=0"})));
}

// Earlier versions wrote the number of servers as max_shards into the job of a run. This limit would still
// apply if the run were resumed with more servers.
TEST(RenamedFieldsTest, DefaultPartitionerThatEarlierVersionsWroteIntoARunIsRemoved) {
  constexpr Row kDefault = {"strategy.parameter_server.partitioner", "",
                            " {\n  min_size {\n    "
                            "min_shard_bytes: 262144\n    max_shards: 2\n  }\n}",
                            ""};
  proto::Job job = Parsed(kJob);
  job.clear_tuning();
  const std::string text = WrittenBefore(kDefault, job);
  const absl::StatusOr<proto::Job> read = RunJob(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->tuning().has_partitioner());
  EXPECT_EQ(RunJob(absl::StrReplaceAll(text, {{"max_shards: 2", "max_shards: 1"}}))
                ->tuning()
                .partitioner()
                .min_size()
                .max_shards(),
            1);
}

TEST(RenamedFieldsTest, RenamingFieldsKeepsTheLineNumbersOfTheOtherFields) {
  const std::string text = "device {\n  graph: false\n}\nepochs: -1\n";
  EXPECT_THAT(WithPresentNames(text), StartsWith("device {\n\n}\nepochs: -1\n"));
  EXPECT_THAT(WithPresentNames(text), ::testing::EndsWith("tuning {\ngraph: false\n}\n"));
}

TEST(RenamedFieldsTest, JobTextWithOnlyTodaysFieldNamesIsUnchanged) {
  const std::string text = ResolvedText(Parsed(kJob, {"tuning.partitioner=min_size"}));
  EXPECT_EQ(WithPresentNames(text), text);
  EXPECT_EQ(WithPresentNames(""), "");
  EXPECT_EQ(RenamedText("tuning.graph"), "");
  EXPECT_EQ(RenamedText("resources_of"), "");
}

}  // namespace
}  // namespace tethys
