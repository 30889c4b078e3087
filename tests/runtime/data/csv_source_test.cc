// Tests that lines of text are read as samples, and that errors about invalid text name the file and the
// line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/data/csv_lines.h"
#include "runtime/data/data_format.h"
#include "runtime/data/dataset.h"
#include "tests/runtime/data/idx_files.h"
#include "tests/runtime/data/reference_samples.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CsvTest : public ::testing::Test {
 protected:
  proto::Job JobOf(const std::string& content) const {
    proto::Job job;
    job.mutable_data()->set_classes(10);
    job.mutable_data()->mutable_csv()->add_train(directory_.Write("train.csv", content));
    return job;
  }
  // The values of a sample of floats.
  static std::vector<float> ValuesOf(const Dataset& data, int64_t index) {
    std::vector<float> values(data.sample_elements());
    const absl::Status status = data.ReadValues(index, reinterpret_cast<uint8_t*>(values.data()));
    EXPECT_TRUE(status.ok()) << status;
    return values;
  }
  static int32_t LabelOf(const Dataset& data, int64_t index) {
    int32_t label = -1;
    EXPECT_TRUE(data.ReadLabels(index, &label).ok());
    return label;
  }
  // The error of opening the data or, if opening succeeds, of reading sample `index`.
  static std::string ErrorOf(const proto::Job& job, int64_t index = 0) {
    const absl::StatusOr<Datasets> data = LoadDatasets(job);
    if (!data.ok()) return std::string(data.status().message());
    std::vector<float> values(data->train->sample_elements());
    std::vector<int32_t> labels(data->train->label_format().elements());
    return std::string(
        data->train->Read(index, reinterpret_cast<uint8_t*>(values.data()), labels.data()).message());
  }

  const testing::TempDirectory directory_;
};

TEST_F(CsvTest, TextWrittenByNumPyIsRead) {
  proto::Job job;
  job.mutable_data()->set_classes(4);
  proto::Csv& csv = *job.mutable_data()->mutable_csv();
  csv.add_train(testing::ReferenceFile("numpy_bytes.csv"));
  csv.set_bytes(true);
  csv.set_delimiter(";");
  for (const int64_t axis : {4, 5, 3}) csv.add_shape(axis);
  testing::ExpectReferenceSamples(*LoadDatasets(job).value().train);
  // The file has numbers like 1.000000000000000000e+00 below a line of names.
  csv.set_train(0, testing::ReferenceFile("numpy_floats.csv"));
  csv.clear_delimiter();
  testing::ExpectReferenceSamples(*LoadDatasets(job).value().train);
  csv.set_bytes(false);
  const Datasets data = LoadDatasets(job).value();
  EXPECT_EQ(data.train->spec(), (SampleSpec{.shape = {4, 5, 3}, .type = ValueType::kFloat}));
  const std::vector<float> values = ValuesOf(*data.train, 3);
  for (int k = 0; k < 60; ++k) EXPECT_EQ(values[k], 21 + k);
  EXPECT_EQ(FormatOf(job.data()).bytes_held(job.data(), data.train->spec()), 8);
}

TEST_F(CsvTest, FloatsAreTheNearestToTheirText) {
  const Datasets data = LoadDatasets(JobOf("0.1,-1e-3, +3.5e8 ,1e-60,16777217,1e-40,7\n")).value();
  EXPECT_THAT(ValuesOf(*data.train, 0), ElementsAre(0.1f, -1e-3f, 3.5e8f, 0.0f, 16777216.0f, 1e-40f));
  EXPECT_EQ(LabelOf(*data.train, 0), 7);
}

TEST_F(CsvTest, LinesMayEndWithLfCrlfOrTheEndOfTheFile) {
  for (const char* content : {"1,2,3\n4,5,6\n", "1,2,3\n4,5,6", "1,2,3\r\n4,5,6\r\n", "1,2,3\r\n4,5,6\r",
                              "\xef\xbb\xbf"
                              "1,2,3\n4,5,6\n\n\r\n",
                              "a,b,c\r\n1,2,3\n4,5,6"}) {
    const absl::StatusOr<Datasets> data = LoadDatasets(JobOf(content));
    ASSERT_TRUE(data.ok()) << content << data.status();
    ASSERT_EQ(data->train->size(), 2) << content;
    EXPECT_THAT(ValuesOf(*data->train, 0), ElementsAre(1, 2)) << content;
    EXPECT_THAT(ValuesOf(*data->train, 1), ElementsAre(4, 5)) << content;
    EXPECT_EQ(LabelOf(*data->train, 1), 6) << content;
  }
}

TEST_F(CsvTest, LinesThatCrossBlocksOfTheFileAreReadWhole) {
  std::string content;
  for (int i = 0; i < 90'000; ++i) absl::StrAppend(&content, i, ",", 3 * i, ",", i % 10, "\r\n");
  const Datasets data = LoadDatasets(JobOf(content)).value();
  ASSERT_EQ(data.train->size(), 90'000);
  for (int i = 89'999; i >= 0; i -= 7) {
    ASSERT_THAT(ValuesOf(*data.train, i), ElementsAre(i, 3 * i));
    ASSERT_EQ(LabelOf(*data.train, i), i % 10);
  }
}

TEST_F(CsvTest, FilesThatMatchAPatternAreReadAsOneSplitWithoutTheirHeaders) {
  proto::Job job = JobOf("x,y,label\n1,2,3\n");
  directory_.Write("train.csv.2", "x,y,label\n4,5,6\n7,8,9\n");
  job.mutable_data()->mutable_csv()->set_train(0, directory_.Path("train.csv*"));
  const Datasets data = LoadDatasets(job).value();
  ASSERT_EQ(data.train->size(), 3);
  EXPECT_THAT(data.file_samples, ElementsAre(1, 2));
  EXPECT_THAT(ValuesOf(*data.train, 2), ElementsAre(7, 8));
  directory_.Write("train.csv.2", "x,y,label\n4,5,6\n7,x,9\n");
  EXPECT_THAT(ErrorOf(job, 2),
              HasSubstr("train.csv.2, line 3, column 1 (counted from 0): \"x\" is no number"));
}

TEST_F(CsvTest, LabelColumnIsCountedFromEitherEnd) {
  for (const auto& [column, label] : {std::pair{0, 1}, {1, 2}, {2, 3}, {-1, 3}, {-3, 1}}) {
    proto::Job job = JobOf("1,2,3\n");
    job.mutable_data()->mutable_csv()->set_label_column(column);
    const Datasets data = LoadDatasets(job).value();
    EXPECT_EQ(LabelOf(*data.train, 0), label) << column;
    const std::vector<float> values = ValuesOf(*data.train, 0);
    EXPECT_EQ(values[0] + values[1], 6 - label) << column;
  }
  for (const int column : {3, -4}) {
    proto::Job job = JobOf("1,2,3\n");
    job.mutable_data()->mutable_csv()->set_label_column(column);
    EXPECT_THAT(ErrorOf(job), HasSubstr(absl::StrCat("train.csv, line 1 has 3 columns, but "
                                                     "data.csv.label_column is ",
                                                     column)));
  }
}

TEST_F(CsvTest, TargetsAreColumnsOfFloats) {
  proto::Job job = JobOf("1,0.5,-2,3\n4,1.5,1,6\n");
  proto::Csv& csv = *job.mutable_data()->mutable_csv();
  csv.set_label_column(1);
  csv.set_targets(2);
  EXPECT_THAT(ErrorOf(job), HasSubstr("data.csv.targets is for the mean squared error"));
  job.mutable_data()->clear_classes();
  job.mutable_model()->mutable_loss()->mutable_mean_squared_error();
  const Datasets data = LoadDatasets(job).value();
  EXPECT_EQ(data.train->label_format(), (LabelFormat{.shape = {2}, .targets = true}));
  EXPECT_THAT(ValuesOf(*data.train, 1), ElementsAre(4, 6));
  float targets[2];
  ASSERT_TRUE(data.train->ReadLabels(0, reinterpret_cast<int32_t*>(targets)).ok());
  EXPECT_THAT(targets, ElementsAre(0.5f, -2));
  csv.set_label_column(3);
  EXPECT_THAT(ErrorOf(job), HasSubstr("data.csv.label_column is 3 and data.csv.targets 2"));
  csv.clear_label_column();
  csv.clear_targets();
  EXPECT_EQ(LoadDatasets(job).value().train->label_format(), (LabelFormat{.targets = true}));
}

TEST_F(CsvTest, ErrorNamesLineAndColumnOfASampleThatCannotBeRead) {
  for (const auto& [content, message] : std::vector<std::pair<std::string, std::string>>{
           {"1,2,3\n1,b,3", "line 2, column 1 (counted from 0): \"b\" is no number"},
           {"1,2,3\n1,,3", "line 2, column 1 (counted from 0): \"\" is no number"},
           {"1,2,3\n1,2e,3", "line 2, column 1 (counted from 0): \"2e\" is no number"},
           {"1,2,3\n1,0x10,3", "line 2, column 1 (counted from 0): \"0x10\" is no number"},
           {"1,2,3\n1,nan,3", "line 2, column 1 (counted from 0): \"nan\" is not finite"},
           {"1,2,3\n-inf,2,3", "line 2, column 0 (counted from 0): \"-inf\" is not finite"},
           {"1,2,3\n1e39,2,3", "line 2, column 0 (counted from 0): \"1e39\" is not finite"},
           {"1,2,3\n1,2,3.5", "line 2, column 2 (counted from 0): \"3.5\" is no class"},
           {"1,2,3\n1,2,cat", "line 2, column 2 (counted from 0): \"cat\" is no class"},
           {"1,2,3\n1,2,10", "line 2, column 2 (counted from 0): \"10\" is a label outside the 10 classes"},
           {"1,2,3\n1,2,-1", "line 2, column 2 (counted from 0): \"-1\" is a label outside"},
           {"1,2,3\n1,2,99999999999999999999", "\"99999999999999999999\" is no class"},
           {"1,2,3\n1,2", "line 2 has 2 columns, but the first sample has 3"},
           {"1,2,3\n1,2,3,4", "line 2 has 4 columns, but the first sample has 3"},
           {"1,2,3\n3", "line 2 has 1 column, but the first sample has 3"}}) {
    EXPECT_THAT(ErrorOf(JobOf(content), 1), AllOf(HasSubstr("train.csv"), HasSubstr(message))) << content;
  }
  for (const char* value : {"256", "-1", "0.5", "x", "1e3"}) {
    proto::Job job = JobOf(absl::StrCat("1,2,3\n1,", value, ",3\n"));
    job.mutable_data()->mutable_csv()->set_bytes(true);
    EXPECT_THAT(ErrorOf(job, 1), HasSubstr(absl::StrCat("line 2, column 1 (counted from 0): \"", value,
                                                        "\" is no integer from 0 to 255")));
  }
}

TEST_F(CsvTest, FirstSampleIsCheckedWhenTheSizesOfTheDataAreRead) {
  for (const auto& [content, message] : std::vector<std::pair<std::string, std::string>>{
           {"1,2,10\n", "line 1, column 2 (counted from 0): \"10\" is a label outside the 10 classes"},
           {"x,y,z\n1,2,0.5\n", "line 2, column 2 (counted from 0): \"0.5\" is no class"},
           {"x,y,z\n1,cat,3\n", "line 2, column 1 (counted from 0): \"cat\" is no number"},
           {"\"x\",\"y\"\n\"1\",\"2\n", "line 2, column 1 (counted from 0): \"\\\"2\" is no class"}}) {
    EXPECT_THAT(std::string(ReadDatasetSizes(JobOf(content)).status().message()),
                AllOf(HasSubstr("train.csv"), HasSubstr(message)))
        << content;
  }
  // In each of the two files, the first line is a sample and not a header.
  proto::Job job = JobOf("1,2,3\n");
  job.mutable_data()->mutable_csv()->add_train(directory_.Write("more.csv", "1,2\n"));
  EXPECT_THAT(std::string(ReadDatasetSizes(job).status().message()),
              HasSubstr("more.csv, line 1 has 2 columns, but the first sample has 3"));
}

TEST_F(CsvTest, GzippedFileIsRefusedWithTheRemedy) {
  EXPECT_THAT(ErrorOf(JobOf(testing::Gzip("1,2,3\n"))),
              HasSubstr("train.csv: the file is not text with one sample per line, but compressed by gzip: "
                        "unpack it with gunzip"));
}

TEST_F(CsvTest, FilesThatAreNoTablesOfNumbersAreRefusedNamingFileAndFault) {
  for (const auto& [content, message] : std::vector<std::pair<std::string, std::string>>{
           {"", "the file is empty"},
           {"\n\r\n", "the file has only empty lines"},
           {"\xef\xbb\xbf", "the file has only empty lines"},
           {"a,b,c\n", "is a header: the file holds no samples"},
           {"1,2,3\n\n4,5,6\n", "line 2 is empty"},
           {"1,2,3\r\n\r\n\n4,5,6\n", "line 2 is empty"},
           {"1;2;3\n", "write data.csv.delimiter: \";\""},
           {"a;b;c\n", "its only line has words"},
           {"1,2,3\r4,5,6\r", "carriage returns alone"},
           {",,\n , ,\n", "the file has only blank lines"},
           {"7\n", "no column besides the column of the label"}}) {
    EXPECT_THAT(ErrorOf(JobOf(content)), AllOf(HasSubstr("train.csv"), HasSubstr(message))) << content;
  }
  proto::Job job = JobOf("1,2,3\n");
  job.mutable_data()->mutable_csv()->add_shape(3);
  EXPECT_THAT(ErrorOf(job), HasSubstr("has 2 columns besides the label, but data.csv.shape is [3]"));
  job.mutable_data()->mutable_csv()->set_shape(0, INT64_MAX);
  job.mutable_data()->mutable_csv()->add_shape(3);
  EXPECT_THAT(ErrorOf(job), HasSubstr("but data.csv.shape is"));
}

// A first line with a fault is refused, like any other line with a fault, and not taken for a header.
TEST_F(CsvTest, FirstLineWithAnInvalidNumberIsAnErrorAndNoHeader) {
  for (const auto& [first, message] : std::vector<std::pair<std::string, std::string>>{
           {"1.5,,0", "column 1 (counted from 0): \"\" is no number: a value is missing"},
           {"1,2O,0", "column 1 (counted from 0): \"2O\" is no number"},
           {"l,2,0", "column 0 (counted from 0): \"l\" is no number"},
           {"O,0,1", "column 0 (counted from 0): \"O\" is no number"},
           {"NA,2,0", "\"NA\" is no number but a mark of a missing value"},
           {"2O,lO,O2", "\"2O\" is no number"},
           {"NA,NA,NA", "\"NA\" is no number but a mark of a missing value"},
           {"?,2,0", "\"?\" is no number but a mark of a missing value"},
           {"nan,2,0", "\"nan\" is not finite"},
           {"nan,nan,nan", "\"nan\" is not finite"},
           {"inf,b,c", "\"inf\" is not finite"},
           {"\xe2\x88\x92"
            "1,2,0",
            "a typographic minus sign or space"},
           {"\xe2\x88\x92"
            "1,\xe2\x88\x92"
            "2,0",
            "a typographic minus sign or space"},
           {"1\xc2\xa0"
            "000,2,0",
            "a typographic minus sign or space"},
           {"\"1,5\",\"2\",\"0\"", "\"1,5\" is no number: its decimal comma must be a point"},
           {"1;2;0", "write data.csv.delimiter: \";\""},
           {"1\t2\t0", "write data.csv.delimiter: \"\\t\""},
           {"$1,2,0", "\"$1\" is no number"},
           {"5%,2,0", "\"5%\" is no number"},
           {"0x1f,2,0", "\"0x1f\" is no number"},
           {"2020-01-31,2,0", "\"2020-01-31\" is no number"},
           {"1,2,", "\"\" is no class"},
           {"1,2,cat", "number the classes from 0 on"},
           {"label,1,0", "write data.csv.header_lines: 1"},
           {"label,1990,1991", "write data.csv.header_lines: 1"}}) {
    const std::string error = ErrorOf(JobOf(first + "\n3,4,1\n5,6,2\n"));
    EXPECT_THAT(error, AllOf(HasSubstr("train.csv, line 1"), HasSubstr(message))) << first;
  }
}

TEST_F(CsvTest, FirstLineWithColumnNamesIsSkippedAsAHeader) {
  for (const char* first :
       {"label,1x1,1x2", "e1,e2,label", "O2,CO2,label", "RI,Na,Mg", "NA,a,b", "_1,_2,_3", "label,0,1",
        "0,1,label", "\"a\",\"b\",\"c\"", "# a,b,c", "I,Q,label", "a,,c", "x,2nd,3rd", "x^2,x,label",
        "PAR1,PAR2,label", "\"a,b\",c,d", "sep=,\na,b,c", "sep=,",
        "\xef\xbb\xbf"
        "a,b,c"}) {
    const absl::StatusOr<Datasets> data = LoadDatasets(JobOf(absl::StrCat(first, "\n1,2,3\n4,5,6\n")));
    ASSERT_TRUE(data.ok()) << first << data.status();
    EXPECT_EQ(data->train->size(), 2) << first;
    EXPECT_THAT(ValuesOf(*data->train, 0), ElementsAre(1, 2)) << first;
  }
}

TEST_F(CsvTest, QuotedNumbersAndBlankLastLinesAreRead) {
  proto::Job job = JobOf(
      "\xef\xbb\xbf\"a\";\"b; \"\"c\"\"\";\"label\"\r\n\"1\"; \"2.5\" "
      ";\"3\"\r\n4;5;\"6\"\r\n;;\r\n;;\r\n\r\n");
  job.mutable_data()->mutable_csv()->set_delimiter(";");
  const absl::StatusOr<Datasets> data = LoadDatasets(job);
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ(data->train->size(), 2);
  EXPECT_THAT(ValuesOf(*data->train, 0), ElementsAre(1, 2.5f));
  EXPECT_EQ(LabelOf(*data->train, 0), 3);
  EXPECT_THAT(ValuesOf(*data->train, 1), ElementsAre(4, 5));
  EXPECT_EQ(LabelOf(*data->train, 1), 6);
}

TEST_F(CsvTest, AsManyHeaderLinesAsTheJobStatesAreSkipped) {
  proto::Job job = JobOf("0,1,2\n3,4,5\n6,7,8\n");
  for (const int lines : {0, 1, 2}) {
    job.mutable_data()->mutable_csv()->set_header_lines(lines);
    const Datasets data = LoadDatasets(job).value();
    EXPECT_EQ(data.train->size(), 3 - lines);
    EXPECT_EQ(LabelOf(*data.train, 0), 2 + 3 * lines);
  }
  job.mutable_data()->mutable_csv()->set_header_lines(3);
  EXPECT_THAT(ErrorOf(job), HasSubstr("all of its lines are left out by data.csv.header_lines"));
}

TEST_F(CsvTest, NotesNameSkippedHeaderLinesAndLikelyMistakes) {
  const auto notes = [&](const std::string& content) {
    return ReadDatasetSizes(JobOf(content)).value().notes;
  };
  EXPECT_THAT(notes("1,2,3\n3,4,1\n"), IsEmpty());
  EXPECT_THAT(notes("a,b,label\n3,4,1\n"), ElementsAre(AllOf(HasSubstr("1 header line is left out"),
                                                             HasSubstr("train.csv, line 1: a,b,label"))));
  EXPECT_THAT(notes("0,1,2\n1.5,2,0\n"), ElementsAre(HasSubstr("train.csv, line 1 is 0, 1, 2, ...")));
  EXPECT_THAT(
      notes(",a,label\n17,4,1\n3,4,1\n"),
      ElementsAre(HasSubstr("header line"), HasSubstr("column 0 has no name, like the index that pandas")));
  EXPECT_THAT(notes("Unnamed: 0,a,label\n17,4,1\n"),
              ElementsAre(HasSubstr("header line"), HasSubstr("has no name")));
  EXPECT_THAT(notes("id,a,label\n1,4,1\n2,4,1\n3,4,1\n"),
              ElementsAre(HasSubstr("header line"), HasSubstr("column 0 counts the rows")));
  EXPECT_THAT(notes("\"a\",\"label\"\n\"1\",4,1\n\"2\",4,1\n"),
              ElementsAre(HasSubstr("header line"),
                          HasSubstr("names 2 columns, but samples have 3: the first column may be row")));
  std::string counted;
  for (int i = 0; i < 9; ++i) absl::StrAppend(&counted, i, ",7,1\n");
  EXPECT_THAT(notes(counted), ElementsAre(HasSubstr("column 0 counts the rows")));
  // There is no note about row numbers if the first column is the label.
  proto::Job job = JobOf("label,a\n0,5\n1,5\n2,5\n");
  job.mutable_data()->mutable_csv()->set_label_column(0);
  EXPECT_THAT(ReadDatasetSizes(job).value().notes, ElementsAre(HasSubstr("header line")));
}

TEST_F(CsvTest, EachFeatureOfATableIsStandardisedByItself) {
  proto::Job job = JobOf("0,100,7,1\n2,300,7,1\n");
  job.mutable_data()->set_compute_standardisation(true);
  const auto scaling = [&] { return ResolveScaling(job.data(), *LoadDatasets(job).value().train).value(); };
  EXPECT_EQ(scaling().channels(), 1);
  job.mutable_data()->set_per_channel(true);
  EXPECT_THAT(scaling().mean, ElementsAre(1, 200, 7));
  EXPECT_THAT(scaling().deviation, ElementsAre(1, 100, 1)) << "a constant feature is only shifted";
  // Now the job gives one mean per feature.
  job.mutable_data()->clear_compute_standardisation();
  job.mutable_data()->clear_per_channel();
  for (const float mean : {1, 2, 3}) job.mutable_data()->add_mean(mean);
  job.mutable_data()->add_deviation(2);
  EXPECT_THAT(scaling().mean, ElementsAre(1, 2, 3));
  job.mutable_data()->add_mean(4);
  EXPECT_THAT(
      ErrorOf(job),
      HasSubstr("data.mean has 4 numbers, but samples are [3]: give one number, or one per feature (3)"));
}

TEST_F(CsvTest, EmptyFilesAreSkippedUnlessAllAreEmpty) {
  proto::Job job = JobOf("x,y,label\n1,2,3\n");
  for (const auto& [name, content] : {std::pair{"train.csv.1", ""},
                                      {"train.csv.2", "x,y,label\n"},
                                      {"train.csv.3", "\n\n"},
                                      {"train.csv.4", "4,5,6\n"}}) {
    directory_.Write(name, content);
  }
  job.mutable_data()->mutable_csv()->set_train(0, directory_.Path("train.csv*"));
  const Datasets data = LoadDatasets(job).value();
  EXPECT_EQ(data.train->size(), 2);
  EXPECT_THAT(data.file_samples, ElementsAre(1, 0, 0, 0, 1));
  EXPECT_EQ(LabelOf(*data.train, 1), 6);
  EXPECT_THAT(ReadDatasetSizes(job).value().notes, ElementsAre(HasSubstr("3 of 5 files hold no samples: "),
                                                               HasSubstr("1 header line is left out")));
  directory_.Write("train.csv", "");
  directory_.Write("train.csv.4", "");
  EXPECT_THAT(ErrorOf(job), HasSubstr("the 5 files from "));
}

// A source that claims to have a line of more than 1 GiB, without storing such a line.
class LongLine final : public ByteSource {
 public:
  const std::string& name() const override { return name_; }
  int64_t size() const override { return CsvLines::kMostLineBytes + 2; }
  absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> out) const override {
    std::fill(out.begin(), out.end(), uint8_t{'1'});
    if (offset + static_cast<int64_t>(out.size()) == size()) out.back() = '\n';
    return absl::OkStatus();
  }

 private:
  const std::string name_ = "long.csv";
};

TEST(CsvLinesTest, LineLongerThanTheLimitIsRefused) {
  EXPECT_THAT(std::string(CsvLines::Find(std::make_shared<LongLine>()).status().message()),
              HasSubstr("long.csv, line 1 has 1073741825 bytes"));
}

}  // namespace
}  // namespace tethys
