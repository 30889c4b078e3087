#include "deploy/study/study_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/study/study_analysis.h"
#include "deploy/study/study_claims.h"
#include "deploy/study/study_results.h"
#include "runtime/base/file.h"
#include "tests/deploy/report/run_records.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kFactors[] = R"(
  factor {
    name: "strategy"
    level { label: "PS" set: "strategy=parameter_server" set: "workers=2" }
    level { label: "MW" set: "strategy=mirrored" set: "workers=2" }
  }
  factor {
    name: "batch"
    level { label: "8" set: "batch_size_per_worker=8" }
    level { label: "16" set: "batch_size_per_worker=16" }
  }
)";

constexpr char kJob[] = R"(
  model { layer { flatten {} } layer { dense { units: 10 } } }
  data { synthetic { noise { shape: [4, 4, 1] } train_samples: 100 } classes: 10 }
  optimizer { sgd {} learning_rate: 0.1 }
  batch_size_per_worker: 8
  epochs: 1
)";

class StudyFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<LoadedStudy> Load(const std::string& text,
                                   const std::map<std::string, std::string>& places = {}) {
    EXPECT_TRUE(WriteFileAtomically(folder_.path() + "/job.textproto", kJob).ok());
    EXPECT_TRUE(WriteFileAtomically(path(), text).ok());
    return LoadStudy(path(), places);
  }
  std::string path() const { return folder_.path() + "/s.textproto"; }
  // The error message of a refused study, without the folder of the study file.
  std::string Refusal(const std::string& text) {
    const absl::Status status = Load(text).status();
    EXPECT_FALSE(status.ok());
    std::string message(status.message());
    const std::string prefix = folder_.path() + "/";
    for (size_t at; (at = message.find(prefix)) != std::string::npos;) message.erase(at, prefix.size());
    return message;
  }

  testing::TempDirectory folder_;
};

TEST_F(StudyFileTest, CombinationsOfLevelsAreInFileOrderWithTheirJobs) {
  const auto study = Load(absl::StrCat("job: \"job.textproto\" set: \"epochs=3\"", kFactors));
  ASSERT_TRUE(study.ok()) << study.status();
  ASSERT_THAT(study->cells, SizeIs(4));
  EXPECT_EQ(study->cells[1].name, "PS, 16");
  EXPECT_EQ(study->cells[1].directory, "s-PS-16");
  EXPECT_TRUE(study->cells[1].job.strategy().has_parameter_server());
  EXPECT_EQ(study->cells[1].job.batch_size_per_worker(), 16);
  EXPECT_EQ(study->cells[3].job.epochs(), 3);
}

TEST_F(StudyFileTest, JobsMayBuildOnOtherJobFiles) {
  ASSERT_TRUE(
      WriteFileAtomically(folder_.path() + "/long.textproto", "base: \"job.textproto\" epochs: 40").ok());
  const auto study = Load(absl::StrCat("job: \"long.textproto\"", kFactors));
  ASSERT_TRUE(study.ok()) << study.status();
  EXPECT_EQ(study->cells[1].job.epochs(), 40);
  EXPECT_EQ(study->cells[1].job.batch_size_per_worker(), 16);
  EXPECT_EQ(study->cells[1].job.model().layer_size(), 2);
}

TEST_F(StudyFileTest, ExcludedCombinationsAreLeftOut) {
  const auto study =
      Load(absl::StrCat("job: \"job.textproto\"", kFactors,
                        "exclude { match { factor: \"strategy\" level: \"MW\" } match { factor: "
                        "\"batch\" level: \"8\" } }"));
  ASSERT_TRUE(study.ok()) << study.status();
  EXPECT_THAT(study->cells, SizeIs(3));
  EXPECT_EQ(study->excluded, 1);
}

TEST_F(StudyFileTest, ErrorsNameFileAndLine) {
  EXPECT_THAT(Refusal("job: \"job.textproto\""), StartsWith("s.textproto: the study has no factor"));
  EXPECT_THAT(Refusal("job: \"job.textproto\"\nfactor { name: \"a\" }"),
              StartsWith("s.textproto:2:1: factor a has no levels"));
  EXPECT_THAT(Refusal("factor { name: \"a\"\n level { label: \"x\" }\n level { label: \"x\" } }"),
              StartsWith("s.textproto:3:2: factor a has two levels with the label x"));
  EXPECT_THAT(
      Refusal("job: \"job.textproto\"\nfactor { name: \"a\" level { label: \"x\"\n set: \"epoch=3\" } }"),
      AllOf(StartsWith("s.textproto:3:2: epoch=3: "), HasSubstr("did you mean 'epochs'?")));
  EXPECT_THAT(
      Refusal("job: \"job.textproto\"\nfactor { name: \"a\" level { label: \"x\"\n set: \"workers=0\" } }"),
      AllOf(StartsWith("s.textproto:3:2: workers=0: "), HasSubstr("(combination x)")));
  EXPECT_THAT(Refusal("factor { nam: \"a\" }"), StartsWith("s.textproto:1:"));
  EXPECT_THAT(Refusal("factor { name: \"a\" level { label: \"x\" } }"),
              HasSubstr("combination x has no job"));
  EXPECT_THAT(Refusal("job: \"none.textproto\" factor { name: \"a\" level { label: \"x\" } }"),
              HasSubstr("none.textproto"));
}

TEST_F(StudyFileTest, ReferencesToUnknownNamesAreRefused) {
  const std::string base = absl::StrCat("job: \"job.textproto\"", kFactors);
  EXPECT_THAT(Refusal(base + "exclude { match { factor: \"bach\" level: \"8\" } }"),
              HasSubstr("there is no factor 'bach' (did you mean batch?)"));
  EXPECT_THAT(Refusal(base + "exclude { match { factor: \"batch\" level: \"9\" } }"),
              HasSubstr("factor batch has no level '9'"));
  EXPECT_THAT(Refusal(base + "exclude { }"), HasSubstr("would exclude every combination"));
  EXPECT_THAT(Refusal(base + "published { measure: \"acuracy\" value: 1 }"),
              HasSubstr("no measure 'acuracy'"));
}

TEST_F(StudyFileTest, NumbersWithoutMeaningAreRefused) {
  const std::string base = absl::StrCat("job: \"job.textproto\"", kFactors);
  EXPECT_THAT(Refusal(base + "price { kind: \"a\" price_per_hour: -1 }"),
              HasSubstr("price_per_hour is -1: must be from 0 to 1e+09"));
  EXPECT_THAT(Refusal(base + "price { price_per_hour: nan }"), HasSubstr("must be from 0"));
  EXPECT_THAT(Refusal(base + "factor { name: \"a\"\n level { label: \"x\" price_per_hour: inf } }"),
              AllOf(StartsWith("s.textproto:"), HasSubstr("price_per_hour is inf")));
  EXPECT_THAT(Refusal(base + "published { measure: \"training_seconds\" value: inf }"),
              HasSubstr("must be finite"));
  EXPECT_THAT(Refusal(base + "most_repeats: -1"), HasSubstr("most_repeats must be"));
}

TEST_F(StudyFileTest, ClaimThatComparesNothingIsRefused) {
  EXPECT_THAT(Refusal(absl::StrCat("job: \"job.textproto\"", kFactors,
                                   "claim { measure: \"training_seconds\" more { factor: \"batch\" level: "
                                   "\"8\" } }")),
              HasSubstr("the claim compares nothing"));
}

TEST_F(StudyFileTest, CombinationsWithTheSameJobAreRefused) {
  EXPECT_THAT(
      Refusal("job: \"job.textproto\" factor { name: \"a\" level { label: \"x\" } level { label: \"y\" } }"),
      HasSubstr("the combinations x and y are the same job: exclude one of these combinations"));
}

TEST_F(StudyFileTest, ReferencesToPlacesAreReplacedByTheFoldersOfThePlaces) {
  const std::string text =
      "job: \"job.textproto\" place { name: \"d\" path: \"/nowhere\" about: \"the data\" } factor { name: "
      "\"a\" level { "
      "label: \"x\" set: \"data.cache_dir=${d}\" } }";
  EXPECT_THAT(Refusal(text),
              HasSubstr("/nowhere does not exist (d: the data): name the folder by --place=d=DIR"));
  const auto study = Load(text, {{"d", "/tmp"}});
  ASSERT_TRUE(study.ok()) << study.status();
  EXPECT_EQ(study->cells[0].job.data().cache_dir(), "/tmp");
  EXPECT_FALSE(Load(text, {{"e", "/tmp"}, {"d", "/tmp"}}).ok());
}

// The runs of a study in which PS takes 20 s and MW 10 s in the first block, and both take a little longer in
// later blocks.
std::vector<StudyRun> Runs(int blocks) {
  std::vector<StudyRun> runs;
  for (int block = 0; block < blocks; ++block) {
    for (int cell = 0; cell < 4; ++cell) {
      const bool servers = cell < 2;
      StudyRun run;
      run.record = testing::OneRun(cell, block, servers ? 0.9 : 0.88 + 0.001 * block,
                                   (servers ? 20 : 10) * (1 + 0.01 * block + 0.002 * cell));
      run.others_cpu = 0.1;
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

TEST_F(StudyFileTest, ClaimsAreJudgedByConfidenceIntervals) {
  const auto study = Load(absl::StrCat(
      "job: \"job.textproto\"", kFactors,
      "published { match { factor: \"strategy\" level: \"PS\" } measure: \"training_seconds\" value: 30 }"
      "published { match { factor: \"strategy\" level: \"MW\" } measure: \"training_seconds\" value: 20 }"
      "claim { text: \"slow\" measure: \"training_seconds\" more { factor: \"strategy\" level: \"PS\" } less "
      "{ factor: "
      "\"strategy\" level: \"MW\" } }"
      "claim { text: \"reverse\" measure: \"training_seconds\" more { factor: \"strategy\" level: \"MW\" } "
      "less { "
      "factor: \"strategy\" level: \"PS\" } }"
      "claim { text: \"batch\" measure: \"test_accuracy\" more { factor: \"batch\" level: \"8\" } less { "
      "factor: "
      "\"batch\" level: \"16\" } }"));
  ASSERT_TRUE(study.ok()) << study.status();
  const proto::StudyReport report = AnalyseStudy(*study, Runs(3), "now");
  ASSERT_EQ(report.claim_size(), 3);
  EXPECT_EQ(report.claim(0).verdict(), "holds");
  EXPECT_THAT(report.claim(0).figure(), AllOf(StartsWith("1.99 times ["), HasSubstr("3 blocks")));
  EXPECT_EQ(report.claim(0).published(), "1.50 times");
  EXPECT_EQ(report.claim(1).verdict(), "does not hold");
  EXPECT_EQ(report.claim(2).verdict(), "not decided");
  EXPECT_EQ(AnalyseStudy(*study, {}, "").claim(0).verdict(), "not run");
  // One block repeats no run, so its pairs of runs cannot decide a claim, however many pairs there are.
  const proto::StudyReport once = AnalyseStudy(*study, Runs(1), "");
  EXPECT_EQ(once.claim(0).verdict(), "not decided");
  EXPECT_EQ(once.claim(0).figure(), "1.99 times, 1 block");
  // An interval over two blocks is reported only if it decides the claim.
  const proto::StudyReport twice = AnalyseStudy(*study, Runs(2), "");
  EXPECT_THAT(twice.claim(0).figure(), StartsWith("1.99 times ["));
  EXPECT_EQ(twice.claim(2).figure(), "+0.00 (test accuracy, %), 2 blocks");
}

TEST_F(StudyFileTest, RunsPutAsideAreLeftOutOfTheMeansOfTheirCell) {
  const auto study = Load(absl::StrCat("job: \"job.textproto\"", kFactors));
  ASSERT_TRUE(study.ok()) << study.status();
  std::vector<StudyRun> runs = Runs(2);
  runs.push_back(runs[0]);
  runs.back().put_aside = true;
  runs.back().record.summary.mutable_timing()->set_training_seconds(1000);
  const proto::StudyReport report = AnalyseStudy(*study, runs, "");
  EXPECT_EQ(report.cell(0).runs(), 2);
  EXPECT_EQ(report.cell(0).put_aside(), 1);
  EXPECT_NEAR(report.cell(0).value(0).mean(), 20.1, 1e-9);
}

TEST_F(StudyFileTest, ResultFilesContainValuesAndEscapeTitles) {
  const auto study = Load(absl::StrCat(
      "title: \"A | B_<script>\" job: \"job.textproto\"", kFactors,
      "published { match { factor: \"strategy\" level: \"PS\" } measure: \"test_accuracy\" value: 0.91 }"));
  ASSERT_TRUE(study.ok()) << study.status();
  const std::vector<StudyRun> runs = Runs(3);
  const proto::StudyReport report = AnalyseStudy(*study, runs, "");
  const std::string markdown = StudyMarkdown(report);
  EXPECT_THAT(markdown, HasSubstr("# A \\| B_&lt;script>"));
  EXPECT_THAT(markdown, HasSubstr("| PS | 8 | 3 | 20.20 ± 0.50 |"));
  EXPECT_THAT(markdown, HasSubstr("| 90 | 91 |"));
  EXPECT_THAT(markdown, HasSubstr("## Effects on training, s"));
  EXPECT_THAT(StudyLatex(report), AllOf(HasSubstr("\\toprule"), HasSubstr("test accuracy, \\%")));
  EXPECT_THAT(StudyHtml(report), AllOf(HasSubstr("A | B_\\u003cscript"), Not(HasSubstr("/*REPORT_DATA*/"))));
  EXPECT_THAT(StudyCsv(*study, runs), HasSubstr("strategy,batch,block,order,start,seed,status,put_aside"));
}

TEST_F(StudyFileTest, RunsOfAnotherStudyAreRefused) {
  const auto study = Load(absl::StrCat("job: \"job.textproto\"", kFactors));
  ASSERT_TRUE(study.ok());
  EXPECT_EQ(ReadStudyRuns(*study, folder_.path()).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(WriteFileAtomically(folder_.path() + "/runs.csv", "variant,block,run_dir\nother,0,x\n").ok());
  EXPECT_THAT(std::string(ReadStudyRuns(*study, folder_.path()).status().message()),
              HasSubstr("the study file was changed after this run"));
  ASSERT_TRUE(
      WriteFileAtomically(folder_.path() + "/runs.csv", "variant,block,run_dir\ns-PS-8,0,gone\ntorn").ok());
  const auto runs = ReadStudyRuns(*study, folder_.path());
  ASSERT_TRUE(runs.ok());
  ASSERT_THAT(*runs, SizeIs(1));
  EXPECT_FALSE((*runs)[0].record.status.ok());
}

}  // namespace
}  // namespace tethys
