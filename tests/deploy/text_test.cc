#include "deploy/text.h"

#include <gtest/gtest.h>

#include <limits>

namespace tethys {
namespace {

TEST(TextTest, DigitsAreGroupedInThousands) {
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(54000), "54,000");
  EXPECT_EQ(CountText(1234567), "1,234,567");
  EXPECT_EQ(CountText(-123), "-123");
  EXPECT_EQ(CountText(-1234), "-1,234");
}

TEST(TextTest, ShowsBytesInFittingUnit) {
  EXPECT_EQ(BytesText(512), "512 B");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText(407080), "398 KiB");
  EXPECT_EQ(BytesText(int64_t{3} << 30), "3.0 GiB");
}

TEST(TextTest, ShowsDurationsAsOnClock) {
  EXPECT_EQ(DurationText(0), "0:00");
  EXPECT_EQ(DurationText(83.4), "1:23");
  EXPECT_EQ(DurationText(3723), "1:02:03");
  EXPECT_EQ(DurationText(-5), "0:00");
  EXPECT_EQ(GroupedText(1234567.891, 1), "1,234,567.9");
  EXPECT_EQ(GroupedText(-54765, 0), "-54,765");
  EXPECT_EQ(GroupedText(-0.5, 2), "-0.50");
  EXPECT_EQ(TimeText(-35.16e-6), "-35.2 µs");
  EXPECT_EQ(TimeText(0.004213), "4.21 ms");
  EXPECT_EQ(TimeText(3.4), "3.4 s");
  EXPECT_EQ(TimeText(754), "12:34");
  EXPECT_EQ(TimeText(0.0009996), "1 ms");
  EXPECT_EQ(TimeText(0.9996), "1 s");
  EXPECT_EQ(TimeText(-0.9996), "-1 s");
  EXPECT_EQ(TimeText(99.96), "1:40");
  EXPECT_EQ(DurationText(std::numeric_limits<double>::quiet_NaN()), "0:00");
}

TEST(TextTest, ShowsSignificantDigitsWithoutExponent) {
  EXPECT_EQ(DigitsText(0.034567, 2), "0.035");
  EXPECT_EQ(DigitsText(12.34, 3), "12.3");
  EXPECT_EQ(DigitsText(123.4, 2), "123");
  EXPECT_EQ(DigitsText(999.6, 3), "1,000");
  EXPECT_EQ(DigitsText(-12345.6, 4), "-12,346");
  EXPECT_EQ(DigitsText(std::numeric_limits<double>::infinity(), 3), "inf");
  EXPECT_EQ(SignedDigitsText(1234, 3), "+1,234");
  EXPECT_EQ(SignedDigitsText(-0.5, 3), "-0.5");
}

TEST(TextTest, TruncatesByColumnsNotBytes) {
  EXPECT_EQ(DisplayWidth("86 ± 1"), 6);
  EXPECT_EQ(Truncate("86 ± 1", 4), "86 ±");
  EXPECT_EQ(Truncate("short", 80), "short");
  EXPECT_EQ(Truncate("none", 0), "");
}

TEST(TextTest, AlignsColumnsUnderHeadersOfSeveralLines) {
  EXPECT_EQ(Table({{{"job"}, true}, {{"samples", "/s"}}}, {{"local", "7"}, {"mirrored", "1,234"}}),
            "          samples\n"
            "job            /s\n"
            "local           7\n"
            "mirrored    1,234\n");
}

TEST(TextTest, QuotesCsvCellsIfNecessary) {
  EXPECT_EQ(CsvLine({"a", "b,c", "say \"no\"", "two\nlines", ""}),
            "a,\"b,c\",\"say \"\"no\"\"\",\"two\nlines\",\n");
}

TEST(TableTest, TableWiderThanTerminalIsSplitAndRepeatsItsKeyColumns) {
  const std::vector<Column> columns = {{{"job"}, true}, {{"seconds"}}, {{"global", "batch"}}, {{"KiB"}}};
  const std::vector<std::vector<std::string>> rows = {{"mirrored", "1.5", "384", "530"}};
  EXPECT_EQ(Table(columns, rows, 26),
            "                   global\n"
            "job       seconds   batch\n"
            "mirrored      1.5     384\n"
            "\n"
            "job       KiB\n"
            "mirrored  530\n");
  EXPECT_EQ(Table(columns, rows, 0), Table(columns, rows, 31));
}

TEST(ParseDurationTest, TakesWholeNumbersWithTheUnitsThatAreAllowed) {
  constexpr int64_t kDay = 86400;
  EXPECT_EQ(ParseDuration("30d", "hd").value(), 30 * kDay);
  EXPECT_EQ(ParseDuration("12h", "hd").value(), kDay / 2);
  EXPECT_EQ(ParseDuration("90s", "smhd").value(), 90);
  EXPECT_EQ(ParseDuration("30m", "smhd").value(), 1800);
  for (const char* wrong : {"", "d", "30", "0d", "-1d", "1.5d", "30s", "9999999999999999999d", "99999d"}) {
    EXPECT_EQ(ParseDuration(wrong, "hd").status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

TEST(TextTest, LastNameIsJoinedByTheGivenWordAndOthersByCommas) {
  EXPECT_EQ(NamesText({}), "");
  EXPECT_EQ(NamesText({"A"}), "A");
  EXPECT_EQ(NamesText({"A", "B"}, "or"), "A or B");
  EXPECT_EQ(NamesText({"A", "B", "C"}), "A, B and C");
}

TEST(WrapTest, BreaksAtSpacesOnly) {
  EXPECT_EQ(Wrap("one two three\nfour ± five", "  ", 10), "  one two\n  three\n  four ±\n  five\n");
  EXPECT_EQ(Wrap("averylongword", "", 4), "averylongword\n");
  EXPECT_EQ(Wrap("known to 5 % of", "", 10), "known to\n5 % of\n");
}

TEST(WrapTest, LeadingTextStandsLeftOfTheWrappedText) {
  EXPECT_EQ(WrapBeside("  note", "one two three", 8, 16), "  note  one two\n        three\n");
}

}  // namespace
}  // namespace tethys
