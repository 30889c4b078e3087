#include "runtime/job/field_candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/job.pb.h"
#include "runtime/job/job_fields.h"

namespace tethys {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(FieldCandidatesTest, MessagesEndInAPointAndValuesInAnEqualSign) {
  EXPECT_THAT(FieldCandidates("optimizer.ad"), ElementsAre("optimizer.adam.", "optimizer.adagrad."));
  EXPECT_THAT(FieldCandidates("optimizer.learn"), ElementsAre("optimizer.learning_rate="));
  EXPECT_THAT(FieldCandidates("model.la"), ElementsAre("model.layer[0]."));
  EXPECT_THAT(FieldCandidates("model.layer[3].dense.un"), ElementsAre("model.layer[3].dense.units="));
}

TEST(FieldCandidatesTest, MessageWithOneChoiceCanBeSet) {
  EXPECT_THAT(FieldCandidates("strat"), ElementsAre("strategy.", "strategy="));
  EXPECT_THAT(FieldCandidates("strategy=m"), ElementsAre("strategy=mirrored"));
  EXPECT_THAT(FieldCandidates("strategy.parameter_server.consistency=s"),
              ElementsAre("strategy.parameter_server.consistency=stale_synchronous"));
}

TEST(FieldCandidatesTest, WordsOfEnumerationsAndTruthValuesAreCompleted) {
  EXPECT_THAT(FieldCandidates("device.kind="), ElementsAre("device.kind=CPU", "device.kind=CUDA"));
  EXPECT_THAT(FieldCandidates("evaluate_each_epoch="),
              ElementsAre("evaluate_each_epoch=true", "evaluate_each_epoch=false"));
}

TEST(FieldCandidatesTest, FlagsCannotSetTheBase) {
  EXPECT_THAT(FieldCandidates(""), Contains("workers="));
  EXPECT_THAT(FieldCandidates(""), Not(Contains("base=")));
}

TEST(FieldCandidatesTest, PathsThatDoNotExistHaveNoCandidates) {
  for (const char* text : {"nothing.", "workers.", "workers.x", "workers=", "nothing=", "model.layer[x].",
                           ".", "=", "optimizer.kind.", "batch=", "model..", "optimizer.learning_rate=0.1"}) {
    EXPECT_THAT(FieldCandidates(text), IsEmpty()) << text;
  }
}

// What completion offers as a value is what --set accepts.
TEST(FieldCandidatesTest, OfferedChoicesAreAccepted) {
  for (const char* choice : {"strategy=", "optimizer=", "strategy.parameter_server.consistency=",
                             "device.kind=", "data=", "optimizer.schedule="}) {
    EXPECT_THAT(FieldCandidates(choice), Not(IsEmpty())) << choice;
    for (const std::string& candidate : FieldCandidates(choice)) {
      const size_t equals = candidate.find('=');
      proto::Job job;
      const absl::Status set = SetField(candidate.substr(0, equals), candidate.substr(equals + 1), job);
      EXPECT_TRUE(set.ok()) << candidate << ": " << set;
    }
  }
}

}  // namespace
}  // namespace tethys
