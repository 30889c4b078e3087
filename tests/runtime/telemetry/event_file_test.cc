#include "runtime/telemetry/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;

TEST(EventFileTest, TfRecordConsistsOfLengthChecksumEventAndChecksum) {
  const std::string length("\x03\0\0\0\0\0\0\0", 8);
  // Other code has computed both checksums, bit by bit.
  EXPECT_EQ(TfRecord("abc"), length + "\xb0\x99\x49\x0e" + "abc" + "\x6e\x57\xf1\x21");
}

TEST(EventFileTest, FileHasTheNameAndFirstEventThatTensorBoardExpects) {
  testing::TempDirectory directory;
  auto file = EventFile::Create(directory.path(), 1234.5, "vm").value();
  proto::Event event;
  event.set_step(7);
  ASSERT_TRUE(file->Append(event).ok());
  proto::Event first;
  first.set_wall_time(1234.5);
  first.set_file_version("brain.Event:2");
  EXPECT_EQ(ReadFile(directory.Path("events.out.tfevents.0000001234.vm")).value(),
            TfRecord(first.SerializeAsString()) + TfRecord(event.SerializeAsString()));
}

TEST(EventFileTest, FilesCreatedInTheSameSecondAreNumberedInOrder) {
  testing::TempDirectory directory;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(EventFile::Create(directory.path(), 1234.5, "vm").ok());
  EXPECT_THAT(*ListDirectory(directory.path()),
              ElementsAre("events.out.tfevents.0000001234.vm", "events.out.tfevents.0000001234.vm.1",
                          "events.out.tfevents.0000001234.vm.2"));
}

TEST(EventFileTest, ErrorNamesTheMissingDirectory) {
  const auto file = EventFile::Create("/nowhere", 0, "vm");
  EXPECT_NE(file.status().message().find("/nowhere"), absl::string_view::npos);
}

}  // namespace
}  // namespace tethys
