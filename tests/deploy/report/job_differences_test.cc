#include "deploy/report/job_differences.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;

proto::Job Job(const std::string& text) {
  proto::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job)) << text;
  return job;
}

const char kMirrored[] =
    "name: 'a' workers: 3 batch_size_per_worker: 64 seed: 1 optimizer { sgd { momentum: 0.9 } learning_rate: "
    "0.05 } "
    "strategy { mirrored {} }";
const char kAsynchronous[] =
    "name: 'b' workers: 3 batch_size_per_worker: 64 seed: 2 optimizer { sgd { momentum: 0 } learning_rate: "
    "0.1 } "
    "strategy { parameter_server { servers: 2 asynchronous { } } }";
const char kSynchronous[] =
    "name: 'c' workers: 3 batch_size_per_worker: 64 optimizer { sgd { momentum: 0.9 } learning_rate: 0.05 } "
    "strategy { parameter_server { servers: 2 bulk_synchronous { } } }";

// Each difference as "field: value, value".
std::vector<std::string> Texts(const std::vector<proto::Job>& jobs) {
  std::vector<std::string> texts;
  for (const proto::JobDifference& difference : JobDifferences(jobs)) {
    texts.push_back(absl::StrCat(difference.field(), ": ", absl::StrJoin(difference.value(), ", ")));
  }
  return texts;
}

TEST(JobDifferencesTest, NamesFieldsAndValuesInTheOrderOfTheProtoFile) {
  EXPECT_THAT(Texts({Job(kMirrored), Job(kAsynchronous)}),
              ElementsAre("optimizer.sgd.momentum: 0.9, 0", "optimizer.learning_rate: 0.05, 0.1",
                          "strategy: mirrored, parameter_server"));
}

TEST(JobDifferencesTest, PricesAreNotListedAsDifferences) {
  proto::Job costly = Job(kMirrored);
  costly.set_price_per_hour(3);
  EXPECT_THAT(Texts({Job(kMirrored), costly}), ElementsAre());
}

TEST(JobDifferencesTest, StrategyFieldsAreComparedAmongJobsOfThatStrategy) {
  proto::Job more = Job(kAsynchronous);
  more.mutable_strategy()->mutable_parameter_server()->set_servers(3);
  EXPECT_THAT(Texts({Job(kMirrored), Job(kAsynchronous), more}),
              ::testing::Contains("strategy.parameter_server.servers: , 2, 3"));
  EXPECT_THAT(Texts({Job(kSynchronous), Job(kAsynchronous)}),
              ::testing::Contains("strategy.parameter_server.consistency: bulk_synchronous, asynchronous"));
}

TEST(JobDifferencesTest, TuningIsComparedAmongJobsThatUseIt) {
  proto::Job small = Job(kMirrored), large = small, servers = Job(kSynchronous);
  for (proto::Job* job : {&small, &large, &servers}) job->mutable_tuning()->set_graph(true);
  small.mutable_tuning()->set_bucket_bytes(4096);
  servers.mutable_tuning()->mutable_partitioner()->mutable_fixed()->set_shards(2);
  EXPECT_THAT(Texts({small, servers}), ElementsAre("strategy: mirrored, parameter_server"));
  EXPECT_THAT(Texts({small, large}), ElementsAre("tuning.bucket_bytes: 4096, none"));
  large.mutable_tuning()->set_graph(false);
  EXPECT_THAT(Texts({servers, large}),
              ElementsAre("strategy: parameter_server, mirrored", "tuning.graph: true, false"));
}

TEST(JobDifferencesTest, ListsAndMissingFieldsAreCompared) {
  const proto::Job one = Job("model { layer { dense { units: 1 } } }"),
                   two = Job("model { layer { dense { units: 2 } } }");
  const proto::Job longer = Job("max_steps: 5 model { layer { dense { } } layer { flatten { } } }");
  EXPECT_THAT(Texts({one, two}), ElementsAre("model.layer[0].dense.units: 1, 2"));
  EXPECT_THAT(Texts({one, longer}), ElementsAre("model.layer: 1 entry, 2 entries", "max_steps: none, 5"));
  EXPECT_THAT(Texts({one, one}), ElementsAre());
  EXPECT_THAT(Texts({one}), ElementsAre());
}

TEST(DifferencesTextTest, ListsDifferencesThatNamesDoNotShow) {
  const std::vector<proto::Job> jobs = {Job(kMirrored), Job(kSynchronous), Job(kAsynchronous)};
  EXPECT_EQ(DifferencesText(JobDifferences(jobs), ShortNames(jobs)),
            "optimizer.sgd.momentum: 0 for 3 asynchronous workers with 2 parameter servers, 0.9 for all "
            "others; optimizer.learning_rate: 0.1 for 3 asynchronous workers with 2 parameter servers, 0.05 "
            "for all others");
  EXPECT_EQ(DifferencesText(JobDifferences({jobs[0], jobs[1]}), ShortNames({jobs[0], jobs[1]})), "");
}

TEST(ShortNamesTest, ShortNamesContainTheFieldsInWhichJobsDiffer) {
  proto::Job fewer = Job(kMirrored), larger = Job(kMirrored), slower = Job(kMirrored);
  fewer.set_workers(2);
  larger.set_batch_size_per_worker(128);
  slower.mutable_optimizer()->set_learning_rate(0.01);
  EXPECT_THAT(ShortNames({Job(kMirrored), Job(kAsynchronous)}),
              ElementsAre("3 mirrored workers", "3 asynchronous workers with 2 parameter servers"));
  EXPECT_THAT(ShortNames({Job(kMirrored), fewer}), ElementsAre("3 mirrored workers", "2 mirrored workers"));
  EXPECT_THAT(ShortNames({Job(kMirrored), larger}),
              ElementsAre("3 mirrored workers, batch 192", "3 mirrored workers, batch 384"));
  EXPECT_THAT(ShortNames({Job(kMirrored), slower}), ElementsAre("3 mirrored workers, learning_rate 0.05",
                                                                "3 mirrored workers, learning_rate 0.01"));
}

}  // namespace
}  // namespace tethys
