#include "deploy/run/needs_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tethys {
namespace {

TEST(NeedsFlagsTest, HostNeedsWrittenAsArgumentsAreParsedBackUnchanged) {
  const HostNeeds needs = {
      .files = {{"it's: a file", 7}}, .gpus = 2, .bf16 = true, .tf32 = true, .cuda_library_path = {"a", "b"}};
  const std::vector<std::string> words = NeedsArguments(needs);
  const auto flags = ParseFlags({.verb = "ready", .flags = NeedsFlagSpecs()}, words);
  ASSERT_TRUE(flags.ok()) << flags.status();
  const absl::StatusOr<HostNeeds> parsed = ParseNeeds(*flags);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(NeedsArguments(*parsed), words);
  EXPECT_THAT(words.size(), 6);
}

}  // namespace
}  // namespace tethys
