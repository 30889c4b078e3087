#include "runtime/base/private_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

using ::testing::HasSubstr;

constexpr uid_t kUser = 1000;
constexpr gid_t kGroup = 2000, kOther = 2001;

std::string Refusal(uid_t owner, gid_t group, mode_t mode, uid_t user = kUser) {
  const absl::Status status = CheckPrivate({.owner = owner, .group = group, .mode = mode},
                                           {.user = user, .groups = {kOther, kGroup}}, "token", "the token");
  return std::string(status.message());
}

TEST(PrivateFileTest, OwnFileWithoutOtherReadersIsAccepted) {
  EXPECT_EQ(Refusal(kUser, kGroup, 0600), "");
  EXPECT_EQ(Refusal(kUser, 5, 0400), "");
  EXPECT_THAT(Refusal(kUser, kGroup, 0640), HasSubstr("mode 0640: others could read the token; chmod 600"));
  EXPECT_THAT(Refusal(kUser, kGroup, 0604), HasSubstr("mode 0604"));
}

TEST(PrivateFileTest, RootsFileReadableByOwnGroupIsAccepted) {
  EXPECT_EQ(Refusal(0, kGroup, 0440), "");
  EXPECT_EQ(Refusal(0, kOther, 0640), "");
  EXPECT_EQ(Refusal(0, kGroup, 0440, 0), "") << "a pod that is root";
  EXPECT_THAT(Refusal(0, kGroup, 0640, 0), HasSubstr("chmod 600")) << "root's own file";
}

TEST(PrivateFileTest, RootsFileWithAnyOtherAccessIsRefused) {
  EXPECT_THAT(Refusal(0, kGroup, 0444), HasSubstr("defaultMode: 0400"));
  EXPECT_THAT(Refusal(0, kGroup, 0460), HasSubstr("mode 0460"));
  EXPECT_THAT(Refusal(0, 7, 0440), HasSubstr("its group must be a group of this process"));
  EXPECT_THAT(Refusal(0, kGroup, 0400), HasSubstr("belongs to another user"));
}

TEST(PrivateFileTest, AnotherUsersFileIsRefused) {
  EXPECT_THAT(Refusal(1001, kGroup, 0440), HasSubstr("mode 0440"));
  EXPECT_THAT(Refusal(1001, kGroup, 0600), HasSubstr("belongs to another user"));
}

}  // namespace
}  // namespace tethys
