// Replays the corpora of all fuzz targets, so that a fixed finding stays fixed.
#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "runtime/base/file.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {
namespace {

const std::map<std::string, std::function<void(absl::string_view)>>& Targets() {
  static const auto* targets = new std::map<std::string, std::function<void(absl::string_view)>>{
      {"frame", FuzzFrame},
      {"frame_link", FuzzFrameLink},
      {"ring_caller", FuzzRingCaller},
      {"parameter_store", FuzzParameterStore},
      {"shard_copy", FuzzShardCopy},
      {"chief", FuzzChief},
      {"job_plan", FuzzJobPlan},
      {"remote_answers", FuzzRemoteAnswers},
      {"remote_secrets", FuzzRemoteSecrets},
      {"job", FuzzJob},
      {"host_file", FuzzHostFile},
      {"scheduler", FuzzScheduler},
      {"secret", FuzzSecret},
      {"agent", FuzzAgent},
      {"host_answers", FuzzHostAnswers},
      {"progress", FuzzProgress},
      {"http", FuzzHttp},
      {"proc_text", FuzzProcText},
      {"idx", FuzzIdx},
      {"cifar", FuzzCifar},
      {"csv", FuzzCsv},
      {"npy", FuzzNpy},
      {"picture", FuzzPicture},
      {"tfrecord", FuzzTfrecord},
      {"cache", FuzzCache},
      {"sweep", FuzzSweep},
      {"study", FuzzStudy},
      {"zip", FuzzZip},
      {"safetensors", FuzzSafetensors},
      {"weights", FuzzWeights},
      {"manifest", FuzzManifest},
      {"checkpoint", FuzzCheckpoint},
      {"journal", FuzzJournal},
      {"run_directory", FuzzRunDirectory},
  };
  return *targets;
}

std::string Corpus(const std::string& target) { return absl::StrCat(TETHYS_FUZZ_CORPUS, "/", target); }

TEST(FuzzReplayTest, EveryCorpusHasATarget) {
  const absl::StatusOr<std::vector<std::string>> corpora = ListDirectory(TETHYS_FUZZ_CORPUS);
  ASSERT_TRUE(corpora.ok()) << corpora.status();
  for (const std::string& corpus : *corpora) EXPECT_EQ(Targets().count(corpus), 1) << corpus;
}

class FuzzReplayTest : public ::testing::TestWithParam<std::string> {};

TEST_P(FuzzReplayTest, NoInputOfTheCorpusIsAFinding) {
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(Corpus(GetParam()));
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_FALSE(names->empty());
  for (const std::string& name : *names) {
    // A finding aborts the process. The name printed last is the name of the input that caused it.
    std::cout << name << std::endl;
    const absl::StatusOr<std::string> input = ReadFile(absl::StrCat(Corpus(GetParam()), "/", name));
    ASSERT_TRUE(input.ok()) << input.status();
    Targets().at(GetParam())(*input);
  }
}

std::vector<std::string> TargetNames() {
  std::vector<std::string> names;
  for (const auto& [name, target] : Targets()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzReplayTest, ::testing::ValuesIn(TargetNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tethys::fuzz
