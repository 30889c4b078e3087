#include "deploy/payload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "deploy/ssh.h"
#include "runtime/base/file.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

class PayloadTest : public ::testing::Test {
 protected:
  PayloadTest() {
    std::string path = ::testing::TempDir() + "payload_test_XXXXXX";
    folder_ = mkdtemp(path.data());
  }
  ~PayloadTest() override { RemoveRecursively(folder_).IgnoreError(); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    EXPECT_TRUE(CreateDirectories(path.substr(0, path.rfind('/'))).ok());
    EXPECT_TRUE(WriteFileAtomically(path, text).ok());
    return path;
  }
  // An unpacked bundle; its start script, as OwnProgram names it.
  std::string Unpacked() {
    Write("u/tethys", "script");
    Write("u/lib/tethys", "program");
    return folder_ + "/u/lib/../tethys";
  }

  std::string folder_;
};

TEST_F(PayloadTest, AProgramWithoutABundleGoesAlone) {
  const absl::StatusOr<Payload> payload = FindPayload(Write("tethys", std::string(2048, 'x')), "", folder_);
  ASSERT_TRUE(payload.ok()) << payload.status();
  EXPECT_EQ(payload->path, folder_ + "/tethys");
  EXPECT_FALSE(payload->packed);
  EXPECT_EQ(payload->installed_kib, 2);
}

TEST_F(PayloadTest, TheBundleBesideTheProgramIsTaken) {
  const std::string bundle = Write("tethys-bundle.tar.xz", std::string(1024, 'x'));
  const absl::StatusOr<Payload> payload = FindPayload(Write("tethys", ""), "", folder_);
  ASSERT_TRUE(payload.ok()) << payload.status();
  EXPECT_EQ(payload->path, bundle);
  EXPECT_TRUE(payload->packed);
  EXPECT_GT(payload->installed_kib, 1) << "it grows when it is unpacked";
}

TEST_F(PayloadTest, ALinkLeadsToTheBundleBesideTheProgram) {
  const std::string bundle = Write("a/tethys-bundle.tar.xz", "");
  ASSERT_EQ(symlink(Write("a/tethys", "").c_str(), (folder_ + "/link").c_str()), 0);
  EXPECT_EQ(FindPayload(folder_ + "/link", "", folder_)->path, bundle);
}

TEST_F(PayloadTest, AnUnpackedBundleIsPackedAgain) {
  const absl::StatusOr<Payload> payload = FindPayload(Unpacked(), "", folder_);
  ASSERT_TRUE(payload.ok()) << payload.status();
  EXPECT_TRUE(payload->packed);
  const RemoteResult list =
      RunEverywhere({{.ssh = {"tar", "-tJf", payload->path}}}, 60 * kSecond, folder_)[0];
  EXPECT_EQ(list.output, "tethys\nlib/\nlib/tethys\n") << list.status;
}

TEST_F(PayloadTest, WhatCannotBePackedIsTold) {
  const absl::Status status = FindPayload(Unpacked(), "", folder_ + "/nowhere").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot pack the bundle in " + folder_));
}

TEST_F(PayloadTest, ABundleThatIsNamedMustBeThere) {
  Write("tethys-bundle.tar.xz", "");
  const absl::Status status = FindPayload(Write("tethys", ""), folder_ + "/other", folder_).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/other"));
}

}  // namespace
}  // namespace tethys
