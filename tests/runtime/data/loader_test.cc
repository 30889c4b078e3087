#include "runtime/data/loader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/testing/allocation_counter.h"

namespace tethys {
namespace {

constexpr int64_t kSamples = 50;
constexpr int64_t kElements = 4;

// Sample i is a 2 x 2 image of value i, with label i mod 10. Sample `broken` cannot be read.
class CountingSource : public SampleSource {
 public:
  explicit CountingSource(int64_t broken) : SampleSource({.shape = {2, 2}}, kSamples), broken_(broken) {}
  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    if (index == broken_) return absl::DataLossError("sample 49 is damaged");
    if (values != nullptr) std::memset(values, static_cast<int>(index), kElements);
    if (labels != nullptr) *labels = static_cast<int32_t>(index % 10);
    return absl::OkStatus();
  }

 private:
  const int64_t broken_;
};

std::shared_ptr<const Dataset> CountingDataset(int64_t broken = -1) {
  return std::make_shared<Dataset>(std::make_shared<CountingSource>(broken), 0, kSamples);
}

struct Threads {
  int prefetch_batches;  // 0: the loader has no threads.
  int threads;
};

// Batches must be the same with any number of threads.
class BatchLoaderTest : public ::testing::TestWithParam<Threads> {
 protected:
  static void ExpectBatch(const HostBatch& batch, Slice slice, const EpochOrder* order) {
    ASSERT_EQ(batch.rows, 8);
    for (int64_t row = 0; row < batch.rows; ++row) {
      const bool padding = row >= slice.count();
      const int64_t position = slice.begin + row;
      const int64_t sample = padding ? 0 : order != nullptr ? (*order)[position] : position;
      EXPECT_EQ(batch.weights[row], padding ? 0.0f : 1.0f) << "row " << row;
      EXPECT_EQ(batch.labels[row], sample % 10) << "row " << row;
      for (int64_t i = 0; i < kElements; ++i)
        EXPECT_EQ(batch.inputs[row * kElements + i], sample) << "row " << row;
    }
  }

  static std::vector<HostBatch> Buffers(std::vector<BatchBuffer>& memory,
                                        const BatchLoader::Options& options) {
    std::vector<HostBatch> buffers;
    for (int64_t i = 0; i < BatchLoader::Buffers(options); ++i) {
      buffers.push_back(memory.emplace_back(8, kElements).batch());
    }
    return buffers;
  }

  const BatchLoader::Options options_{.prefetch_batches = GetParam().prefetch_batches,
                                      .threads = GetParam().threads};
  std::vector<BatchBuffer> memory_;
  BatchLoader loader_{CountingDataset(), options_, Buffers(memory_, options_)};
  std::shared_ptr<const EpochOrder> order_ = std::make_shared<EpochOrder>(1, 0, kSamples);
};
INSTANTIATE_TEST_SUITE_P(Prefetch, BatchLoaderTest,
                         ::testing::Values(Threads{0, 1}, Threads{1, 1}, Threads{3, 1}, Threads{3, 3}));

TEST_P(BatchLoaderTest, BatchesFollowTheOrderOfEveryEpoch) {
  int64_t announced = 0, taken = 0;
  const int64_t steps = StepsPerEpoch(kSamples, 8, false);
  std::vector<std::shared_ptr<const EpochOrder>> orders;
  for (int64_t epoch = 0; epoch < 20; ++epoch)
    orders.push_back(std::make_shared<EpochOrder>(1, epoch, kSamples));
  while (taken < 20 * steps) {
    for (; announced < 20 * steps && loader_.room() > 0; ++announced) {
      loader_.Announce(orders[announced / steps], StepSlice(kSamples, 8, announced % steps));
    }
    ExpectBatch(loader_.Next().value(), StepSlice(kSamples, 8, taken % steps), orders[taken / steps].get());
    ++taken;
  }
}

TEST_P(BatchLoaderTest, ShortBatchAfterAFullOneIsPaddedWithWeightZero) {
  loader_.Announce(order_, {0, 8});
  ExpectBatch(loader_.Next().value(), {0, 8}, order_.get());
  for (int i = 0; i < 5; ++i) {
    loader_.Announce(order_, {48, 50});
    ExpectBatch(loader_.Next().value(), {48, 50}, order_.get());
  }
}

TEST_P(BatchLoaderTest, BatchOfAnEmptySliceHasOnlyPaddingRows) {
  loader_.Announce(order_, {50, 50});
  ExpectBatch(loader_.Next().value(), {50, 50}, order_.get());
}

TEST_P(BatchLoaderTest, WithoutAnOrderSamplesKeepTheirNaturalOrder) {
  loader_.Announce(nullptr, {10, 17});
  ExpectBatch(loader_.Next().value(), {10, 17}, nullptr);
}

TEST_P(BatchLoaderTest, BatchIsUnchangedWhileLaterBatchesAreBuilt) {
  loader_.Announce(order_, {0, 8});
  const HostBatch batch = loader_.Next().value();
  Slice next{8, 16};
  while (loader_.room() > 0) loader_.Announce(order_, next);
  ExpectBatch(batch, {0, 8}, order_.get());
  ExpectBatch(loader_.Next().value(), next, order_.get());
}

TEST_P(BatchLoaderTest, LoaderWhoseCallerTakesOneBatchAheadAcceptsOneMoreAnnouncement) {
  BatchLoader::Options options = options_;
  options.taken_ahead = 1;
  std::vector<BatchBuffer> memory;
  BatchLoader ahead(CountingDataset(), options, Buffers(memory, options));
  EXPECT_EQ(ahead.room(), loader_.room() + 1);
}

TEST_P(BatchLoaderTest, LoaderIsReadyOnceNextReturnsWithoutWaiting) {
  EXPECT_FALSE(loader_.ready());
  loader_.Announce(order_, {0, 8});
  while (!loader_.ready()) std::this_thread::yield();
  ExpectBatch(loader_.Next().value(), {0, 8}, order_.get());
  EXPECT_FALSE(loader_.ready());
}

TEST_P(BatchLoaderTest, EpochOrder_IsReleasedOnceAllBatchesAreBuilt) {
  const std::weak_ptr<const EpochOrder> order = order_;
  while (loader_.room() > 0) loader_.Announce(order_, {0, 8});
  for (size_t taken = 0; taken + 1 < memory_.size(); ++taken) EXPECT_TRUE(loader_.Next().ok());
  order_ = nullptr;
  EXPECT_TRUE(order.expired());
}

TEST_P(BatchLoaderTest, SampleThatCannotBeReadFailsOnlyTheBatchThatContainsIt) {
  std::vector<BatchBuffer> memory;
  BatchLoader loader(CountingDataset(49), options_, Buffers(memory, options_));
  for (const Slice slice : {Slice{40, 48}, Slice{48, 50}, Slice{0, 8}}) {
    loader.Announce(nullptr, slice);
    const absl::StatusOr<HostBatch> batch = loader.Next();
    EXPECT_EQ(batch.ok(), slice.end < 50) << batch.status();
    if (!batch.ok()) {
      EXPECT_EQ(batch.status().message(), "sample 49 is damaged");
    }
  }
}

TEST_P(BatchLoaderTest, AugmentationDependsOnThePositionOfTheSampleInTheJob) {
  proto::Job job;
  job.set_seed(3);
  job.mutable_data()->mutable_augment()->mutable_random_crop()->set_pad(1);
  BatchLoader::Options options = options_;
  options.augmentation = std::make_shared<const Augmentation>(job, CountingDataset()->spec(), InputScaling());
  std::vector<BatchBuffer> memory;
  BatchLoader loader(CountingDataset(), options, Buffers(memory, options));
  const auto order = std::make_shared<const EpochOrder>(1, 2, kSamples);
  for (const Slice slice : {Slice{3, 11}, Slice{48, 50}}) {
    loader.Announce(order, slice);
    const HostBatch batch = loader.Next().value();
    for (int64_t row = 0; row < slice.count(); ++row) {
      const int64_t position = slice.begin + row;
      std::vector<uint8_t> expected(kElements, static_cast<uint8_t>((*order)[position]));
      options.augmentation->Apply(2 * kSamples + position, expected.data(), nullptr);
      EXPECT_EQ(expected,
                std::vector<uint8_t>(batch.inputs + row * kElements, batch.inputs + (row + 1) * kElements));
    }
  }
  loader.Announce(nullptr, {10, 17});  // There is no sample order, as in an evaluation.
  ExpectBatch(loader.Next().value(), {10, 17}, nullptr);
}

// Records the calls of Expect and Read: "e5 r1" means Expect of sample 5, then Read of sample 1.
class NotingSource final : public CountingSource {
 public:
  NotingSource() : CountingSource(-1) {}
  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    absl::StrAppend(&notes_, "r", index, " ");
    return CountingSource::Read(index, values, labels);
  }
  void Expect(int64_t index) const override { absl::StrAppend(&notes_, "e", index, " "); }
  const std::string& notes() const { return notes_; }

 private:
  mutable std::string notes_;
};

TEST(BatchLoaderSourceTest, SourceIsToldToExpectASampleFourSamplesBeforeItIsRead) {
  const auto source = std::make_shared<NotingSource>();
  BatchBuffer first(8, kElements), second(8, kElements);
  const BatchLoader::Options options = {.prefetch_batches = 0, .threads = 1};
  BatchLoader loader(std::make_shared<Dataset>(source, 10, 20), options, {first.batch(), second.batch()});
  loader.Announce(nullptr, {1, 7});
  EXPECT_TRUE(loader.Next().ok());
  EXPECT_EQ(source->notes(), "e15 r11 e16 r12 r13 r14 r15 r16 ");
}

TEST_P(BatchLoaderTest, DestructorReturnsWithUntakenBatches) {
  while (loader_.room() > 0) loader_.Announce(order_, {0, 8});
}

TEST_P(BatchLoaderTest, AllocatesNothingOnTheCallersThread) {
  loader_.Announce(order_, {0, 8});
  EXPECT_TRUE(loader_.Next().ok());
  const int64_t before = testing::ThreadAllocations();
  for (int i = 0; i < 100; ++i) {
    loader_.Announce(order_, {0, 8});
    EXPECT_TRUE(loader_.Next().ok());
  }
  EXPECT_EQ(testing::ThreadAllocations(), before);
}

}  // namespace
}  // namespace tethys
