// Uses a device that does all work as late as allowed: if a wait is missing, a step reads the batch of
// another step.
#include "runtime/nn/batch_uploads.h"

#include <cstring>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/late_device.h"

namespace tethys {
namespace {

constexpr int64_t kRows = 5;
constexpr int64_t kElements = 7;
constexpr int64_t kBatches = 9;

class BatchUploadsTest : public ::testing::Test {
 protected:
  // Overwrites the one block of pinned memory, as a loader would, and uploads it.
  void Upload(int64_t number) {
    ASSERT_TRUE(uploads_->AwaitUploads().ok());
    std::memset(pinned_->data(), static_cast<int>(number + 1), pinned_->bytes());
    ASSERT_TRUE(uploads_->Upload(layout_.At(pinned_->data())).ok());
  }
  // Enqueues a step that records the number in the batch that it reads; does not wait for the step.
  void Step(int64_t number) {
    ASSERT_TRUE(uploads_->Take().ok());
    testing::EnqueueWork(*stream_, [this, number] {
      const HostBatch batch = uploads_->batch();
      seen_[number] = {batch.inputs[kRows * kElements - 1], static_cast<int>(batch.labels[kRows - 1] & 255),
                       reinterpret_cast<const uint8_t*>(batch.weights)[0]};
      return absl::OkStatus();
    });
  }
  void ExpectEachStepSawItsBatch() {
    ASSERT_TRUE(stream_->Synchronize().ok());
    for (int64_t k = 0; k < kBatches; ++k) EXPECT_THAT(seen_[k], ::testing::Each(k + 1)) << "batch " << k;
  }

  const BatchLayout layout_{kRows, kElements};
  const std::unique_ptr<Device> device_ = testing::CreateLateDevice();
  const std::unique_ptr<Stream> stream_ = device_->CreateStream().value();
  const std::unique_ptr<Buffer> pinned_ = device_->Allocate(layout_.bytes(), MemoryKind::kPinnedHost).value();
  const std::unique_ptr<BatchUploads> uploads_ = BatchUploads::Create(*device_, *stream_, layout_).value();
  std::vector<std::vector<int>> seen_ = std::vector<std::vector<int>>(kBatches);
};

TEST_F(BatchUploadsTest, EachStepReadsItsOwnBatchWhileTheNextBatchIsUploaded) {
  Upload(0);
  for (int64_t k = 0; k < kBatches; ++k) {
    Step(k);
    if (k + 1 < kBatches) Upload(k + 1);
  }
  ExpectEachStepSawItsBatch();
}

TEST_F(BatchUploadsTest, EachStepReadsItsOwnBatchIfUploadedJustBeforeTheStep) {
  for (int64_t k = 0; k < kBatches; ++k) {
    Upload(k);
    Step(k);
  }
  ExpectEachStepSawItsBatch();
}

TEST_F(BatchUploadsTest, TwoUploadedBatchesMayWaitForTheirSteps) {
  for (int64_t k = 0; k + 1 < kBatches; k += 2) {
    Upload(k);
    Upload(k + 1);
    Step(k);
    Step(k + 1);
  }
  Upload(kBatches - 1);
  Step(kBatches - 1);
  ExpectEachStepSawItsBatch();
}

TEST_F(BatchUploadsTest, PageableMemoryMayBeOverwrittenAsSoonAsUploadReturns) {
  std::vector<char> block(layout_.bytes());
  for (int64_t k = 0; k < kBatches; ++k) {
    std::fill(block.begin(), block.end(), static_cast<char>(k + 1));
    ASSERT_TRUE(uploads_->Upload(layout_.At(block.data())).ok());
    Step(k);
  }
  ExpectEachStepSawItsBatch();
}

}  // namespace
}  // namespace tethys
