#include "deploy/advise/advice_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A candidate whose run takes `seconds`. `parts` names resources other than computing, each with the share of
// a step that the resource takes.
Candidate Of(int workers, double seconds, double cost,
             const std::vector<std::pair<std::string, double>>& parts = {}) {
  Candidate candidate{.shape = {StrategyFamily::kMirrored, workers, 0}, .prediction = {}};
  candidate.prediction.mutable_total()->set_value(seconds);
  candidate.prediction.mutable_samples_per_second()->set_value(1000 / seconds);
  if (cost > 0) candidate.prediction.mutable_cost()->set_value(cost);
  candidate.prediction.add_bound()->set_resource("compute on host0");
  for (const auto& [resource, share] : parts) {
    proto::Bound& bound = *candidate.prediction.add_bound();
    bound.set_resource(resource);
    bound.set_share(share);
  }
  return candidate;
}

// The advice as one line.
std::string TextOf(const std::vector<Candidate>& candidates, const AdviceGoal& goal = {}) {
  const std::string text = AdviceText(candidates, Choose(candidates, goal), goal, {});
  return absl::StrReplaceAll(text, {{"\n", " "}});
}

TEST(AdviceTextTest, ResourceThatMostLimitsTheExchangeIsNamed) {
  EXPECT_THAT(TextOf({Of(2, 10, 0, {{"overhead", 0.3}, {"link of host0", 0.2}})}),
              HasSubstr("Besides computing, waiting for the exchange matters most: it takes 20 % of a step "
                        "because of the link of host0, so doubling the speed of the link of host0 would save "
                        "up to 10 % of the step."));
  const std::string overhead = TextOf({Of(2, 10, 0, {{"overhead", 0.3}, {"link of host0", 0.02}})});
  EXPECT_THAT(overhead, HasSubstr("30 % of a step are overhead"));
  EXPECT_THAT(overhead, Not(HasSubstr("matters most")));
}

TEST(AdviceTextTest, MoreMachinesThatAreNotFasterAreNamed) {
  const auto on = [](int machines, double seconds) {
    Candidate candidate = Of(machines, seconds, 0);
    candidate.machines = machines;
    return candidate;
  };
  EXPECT_THAT(
      TextOf({on(1, 10), on(4, 20), on(8, 30)}),
      HasSubstr("4 machines are slower than one machine for this job: mirrored, 4 workers would take 2.00 "
                "times as long as mirrored, 1 worker on one machine."));
  EXPECT_THAT(MachinesText({on(1, 10), on(4, 5), on(8, 30)}), HasSubstr("8 machines are slower than one"));
  EXPECT_THAT(
      MachinesText({on(1, 10), on(4, 9.9)}),
      HasSubstr("4 machines are not shown to be faster than one machine for this job: mirrored, 4 workers "
                "would take 0.99 times as long as mirrored, 1 worker on one machine, a difference within "
                "the error of the predictions."));
  EXPECT_EQ(MachinesText({on(1, 10), on(4, 5), on(8, 4)}), "");
  EXPECT_EQ(MachinesText({on(4, 5), on(8, 10)}), "") << "no candidate is on one machine";
}

TEST(AdviceTextTest, TableShowsTheChoiceEvenIfManyAreFaster) {
  std::vector<Candidate> candidates;
  for (int workers = 12; workers > 1; --workers) candidates.push_back(Of(workers, 100 - workers, workers));
  const std::string text = TextOf(candidates, {.deadline = 1000, .budget = {}});
  EXPECT_THAT(text, HasSubstr("Run mirrored, 2 workers"));
  EXPECT_THAT(text, HasSubstr(" mirrored        2 "));
  EXPECT_THAT(text, Not(HasSubstr(" mirrored        3 ")));
}

TEST(AdviceTextTest, CostColumnAppearsOnlyIfCostsAreKnown) {
  EXPECT_THAT(TextOf({Of(2, 10, 0), Of(3, 20, 0)}), Not(HasSubstr("whole job  cost")));
  const std::string text = TextOf({Of(2, 10, 0), Of(3, 20, 0.5)});
  EXPECT_THAT(text, HasSubstr("whole job  cost"));
  EXPECT_THAT(text, HasSubstr(" Costs are in the currency of the prices per hour. "));
  EXPECT_THAT(TextOf({Of(2, 10, 0.25)}),
              HasSubstr(", cost 0.25 in the currency of the prices per hour (100 samples/s"));
}

TEST(AdviceTextTest, CandidatesThatFailedAreNamedWithTheirErrors) {
  const std::vector<Candidate> candidates = {Of(2, 10, 0)};
  EXPECT_THAT(TextOf(candidates), Not(HasSubstr("Put aside")));
  AdviceNotes notes;
  notes.put_aside = {"the brief run of mirrored, 3 workers: worker 2 was killed"};
  EXPECT_THAT(AdviceText(candidates, Choose(candidates, {}), {}, notes),
              HasSubstr("Candidates that are not considered, because a brief run of them failed:\n"
                        "  the brief run of mirrored, 3 workers: worker 2 was killed\n"));
}

TEST(AdviceTextTest, NamesHowManySamplesTheChoiceNormalisesTogether) {
  const std::vector<Candidate> candidates = {Of(2, 10, 0)};
  AdviceNotes notes;
  notes.normalisation = "batch normalisation: 2 samples are normalised together";
  EXPECT_THAT(AdviceText(candidates, Choose(candidates, {}), {}, notes),
              HasSubstr("\nNote on batch normalisation: 2 samples are normalised together.\n"));
}

TEST(AdviceTextTest, NoiseScaleIsOfTheLastEpochInWhichItWasMeasured) {
  proto::RunSummary run;
  run.set_global_batch(64);
  run.add_gradient_noise()->set_epoch(0);
  EXPECT_EQ(NoiseScaleText(run), "");
  run.mutable_gradient_noise(0)->set_samples(90);
  run.add_gradient_noise()->set_epoch(1);
  run.mutable_gradient_noise(1)->set_samples(1234.4);
  run.add_gradient_noise()->set_epoch(2);
  EXPECT_THAT(NoiseScaleText(run), HasSubstr("Not used for the choice: the gradient-noise scale was 1,234 "
                                             "samples in epoch 2, with batches of 64."));
}

TEST(AdviceTextTest, TieOfPredictionsIsAttributedToTheirError) {
  EXPECT_THAT(TextOf({Of(2, 10, 0), Of(3, 10, 0)}),
              HasSubstr("Within the error of the predictions, mirrored, 3 workers is equally good."));
}

}  // namespace
}  // namespace tethys
