#include "deploy/sweep/sweep_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

// Steps take 1 ms + 0.1 ms a sample. In batches above 16 they take 20 % longer than that.
proto::Sweep Example() {
  proto::Sweep sweep;
  sweep.set_job("vgg </script>");
  sweep.set_made("2026-11-25");
  proto::SweepCurve& curve = *sweep.add_curve();
  curve.set_host("slave|1");
  curve.set_kind("small");
  curve.set_device("cpu");
  for (const int64_t batch : {8, 16, 24, 32}) {
    proto::BatchTime& time = *curve.add_time();
    time.set_batch(batch);
    time.set_step((1e-3 + 1e-4 * static_cast<double>(batch)) * (batch > 16 ? 1.2 : 1));
    time.set_measured_bytes(batch << 20);
  }
  proto::Segment& segment = *curve.add_segment();
  segment.set_first(8), segment.set_last(16), segment.set_at_zero(1e-3), segment.set_per_sample(1e-4);
  proto::Jump& jump = *curve.add_jump();
  jump.set_after(16), jump.set_least(14), jump.set_most(17), jump.set_share(0.2), jump.set_seconds(5.2e-4);
  curve.set_detectable(0.03);
  curve.mutable_sixteen()->set_verdict(proto::PeriodTest::NOT_SEEN);
  curve.mutable_sixteen()->set_excluded_above(0.012);
  curve.mutable_sixteen()->set_periods(34);
  curve.mutable_sixteen()->set_rank(3);
  curve.set_largest_batch(12345);
  curve.set_forecast_largest_batch(13000);
  curve.set_memory_limit(int64_t{8} << 30);
  return sweep;
}

std::string Sentences(const proto::SweepCurve& curve) {
  const proto::SweepAnswer answer = AnswerOf(curve);
  std::string text;
  for (const std::string& sentence : answer.sentence()) text += sentence + "\n";
  return text;
}

TEST(AnswerTest, SentencesStateBestBatchFittedLineJumpsPeriodAndLargestBatch) {
  const proto::SweepAnswer answer = AnswerOf(Example().curve(0));
  EXPECT_EQ(answer.heading(), "slave|1 (kind small), cpu");
  ASSERT_THAT(answer.sentence(), SizeIs(6));
  EXPECT_EQ(answer.sentence(0),
            "Most samples a second with batch 32: 6,349; batch 16 already reaches 97 % of this throughput.");
  EXPECT_EQ(answer.sentence(1), "A step takes 1 ms + 100 µs × batch for batches 8 to 16.");
  EXPECT_EQ(answer.sentence(2),
            "Jumps: after 16 (14 to 17) +20 % (520 µs). A jump of 3 % of the step or more would have "
            "been found.");
  EXPECT_EQ(answer.sentence(3),
            "Jumps after all multiples of 16: not seen; jumps of more than 1.2 % of the median step are "
            "excluded with 95 % confidence. Among 34 periods, 16 has rank 3 by the quality of the fit.");
  EXPECT_EQ(answer.sentence(4), "Largest batch that ran: 12,345 within 8.0 GiB; forecast: 13,000.");
}

TEST(AnswerTest, BatchesThatAreNotShownToBeSlowerAreCounted) {
  proto::SweepCurve curve = Example().curve(0);
  for (proto::BatchTime& time : *curve.mutable_time()) time.set_error(0.1);
  EXPECT_THAT(Sentences(curve), HasSubstr("6,349, a rate that is not shown to be higher than with "));
}

TEST(AnswerTest, LargePercentagesAreWrittenWithoutAnExponent) {
  proto::SweepCurve curve = Example().curve(0);
  curve.mutable_jump(0)->set_share(1.234);
  curve.set_detectable(12.5);
  EXPECT_THAT(Sentences(curve), HasSubstr("+123 % (520 µs). A jump of 1,250 % of the step"));
}

TEST(AnswerTest, AnswerSaysWhatTheSweepCouldNotTest) {
  proto::SweepCurve curve = Example().curve(0);
  curve.clear_jump();
  curve.clear_detectable();
  EXPECT_THAT(Sentences(curve),
              HasSubstr("No jumps were found. The noise would have hidden even a jump of 10 %."));
  curve.set_untested("7 rounds are needed, and --rounds is 3");
  curve.mutable_sixteen()->Clear();
  curve.mutable_sixteen()->set_reason("few batches");
  curve.clear_largest_batch();
  curve.add_skipped()->set_batch(64);
  curve.mutable_skipped(0)->set_reason("memory");
  EXPECT_THAT(Sentences(curve), HasSubstr("Jumps were not tested: 7 rounds are needed, and --rounds is 3."));
  EXPECT_THAT(Sentences(curve), HasSubstr("multiples of 16: not testable here: few batches."));
  EXPECT_THAT(Sentences(curve), HasSubstr("The largest batch is not known"));
  EXPECT_THAT(Sentences(curve), HasSubstr("Batch 64 has no measured time: memory."));
  EXPECT_THAT(AnswerOf(proto::SweepCurve()).sentence(), Not(SizeIs(0)));
}

TEST(AnswerTest, AnswerReportsOtherProcessesOnTheGpu) {
  proto::SweepCurve curve = Example().curve(0);
  curve.clear_disturbed();
  EXPECT_THAT(Sentences(curve), HasSubstr("no measurement was disturbed by another program."));
  curve.set_gpu_processes(2);
  EXPECT_THAT(Sentences(curve), HasSubstr("2 other processes had this GPU open"));
  curve.set_company_unseen(true);
  EXPECT_THAT(Sentences(curve),
              HasSubstr("Another program that computed on this GPU could not have been noticed"));
  EXPECT_THAT(Sentences(curve), Not(HasSubstr("no measurement was disturbed by another program")));
}

TEST(AnswerTest, ManyDisturbedVisitsMakeTimesDoubtful) {
  proto::SweepCurve curve = Example().curve(0);
  curve.set_visits(10);
  curve.set_disturbed(3);
  EXPECT_THAT(Sentences(curve), Not(HasSubstr("doubtful")));
  curve.set_disturbed(9);
  for (proto::BatchTime& time : *curve.mutable_time()) time.set_visits(5);
  EXPECT_THAT(
      Sentences(curve),
      StartsWith(
          "These times are doubtful: 90 % of the measurements were disturbed by other programs. Repeat"));
  curve.mutable_time(0)->set_disturbed(5);
  EXPECT_THAT(Sentences(curve), HasSubstr(absl::StrCat("programs, including all measurements of 1 of ",
                                                       curve.time_size(), " batches. Repeat")));
  for (proto::BatchTime& time : *curve.mutable_time()) time.set_disturbed(5);
  EXPECT_THAT(Sentences(curve),
              StartsWith("Nothing here is certain: 90 % of the measurements were disturbed"));
}

TEST(SweepFilesTest, WrittenSweepIsReadBackAndEscapedInPages) {
  const testing::TempDirectory directory;
  ASSERT_TRUE(WriteSweep(Example(), directory.path()).ok());
  const absl::StatusOr<proto::Sweep> again = ReadSweep(directory.path());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->SerializeAsString(), Example().SerializeAsString());
  const std::string csv = *ReadFile(directory.Path("sweep.csv"));
  EXPECT_THAT(csv, HasSubstr("\nslave|1,small,cpu,16,0.0026,0,6153.84615,"));
  const std::string markdown = *ReadFile(directory.Path("report.md"));
  EXPECT_THAT(markdown, HasSubstr("# Step time by batch size: vgg &lt;/script>"));
  EXPECT_THAT(markdown, HasSubstr("\n## slave\\|1"));
  EXPECT_THAT(markdown, HasSubstr("| 16 | 2.6 | 6,154 |"));
  const std::string page = *ReadFile(directory.Path("report.html"));
  EXPECT_THAT(page, Not(HasSubstr("vgg </script>")));
  EXPECT_THAT(page, HasSubstr("vgg \\u003c/script"));
  for (const char* place : {"/*PAGE_STYLE*/", "/*CHART_LIBRARY*/", "/*REPORT_DATA*/"}) {
    EXPECT_THAT(page, Not(HasSubstr(place)));
  }
}

TEST(SweepFilesTest, TruncatedOrMeaninglessFileIsNamed) {
  const testing::TempDirectory directory;
  EXPECT_TRUE(absl::IsNotFound(ReadSweep(directory.path()).status()));
  ASSERT_TRUE(WriteSweep(Example(), directory.path()).ok());
  const std::string whole = *ReadFile(directory.Path(kSweepFile));
  for (const size_t size : {size_t{0}, size_t{1}, whole.size() / 2, whole.size() - 3}) {
    directory.Write(kSweepFile, whole.substr(0, size));
    const absl::Status torn = ReadSweep(directory.path()).status();
    EXPECT_TRUE(absl::IsDataLoss(torn)) << size;
    EXPECT_THAT(torn.message(), HasSubstr(directory.Path(kSweepFile) + " does not contain a complete sweep"));
  }
  proto::Sweep unordered = Example();
  unordered.mutable_curve(0)->mutable_time(1)->set_batch(4);
  ASSERT_TRUE(WriteSweep(unordered, directory.path()).ok());
  EXPECT_THAT(ReadSweep(directory.path()).status().message(), HasSubstr("batch 4 follows batch 8"));
}

}  // namespace
}  // namespace tethys
