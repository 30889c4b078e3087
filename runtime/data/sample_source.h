// Labelled samples that are read by index, in any order. Each format of data opens its files as a
// SampleSource (data_format.h).
#ifndef TETHYS_RUNTIME_DATA_SAMPLE_SOURCE_H_
#define TETHYS_RUNTIME_DATA_SAMPLE_SOURCE_H_

#include <cstdint>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/tensor/batch.h"
#include "runtime/tensor/labels.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// The form of every sample of a source.
struct SampleSpec {
  Shape shape = {};
  LabelFormat labels = {};
  ValueType type = ValueType::kByte;  // The type of the values.

  int64_t elements() const {
    int64_t count = 1;
    for (const int64_t axis : shape) count *= axis;
    return count;
  }
  int64_t bytes() const { return elements() * BytesOf(type); }  // The bytes of the values.
  int64_t channels() const { return shape.size() == 3 ? shape[2] : 1; }
  // The number of channels or, in a table, of features, which data.per_channel standardises separately.
  int64_t scaled_channels() const { return shape.size() == 1 ? shape[0] : channels(); }
  bool operator==(const SampleSpec&) const = default;
};

// Immutable; thread-safe.
class SampleSource {
 public:
  SampleSource(SampleSpec spec, int64_t size) : spec_(std::move(spec)), size_(size) {}
  virtual ~SampleSource() = default;

  const SampleSpec& spec() const { return spec_; }
  int64_t size() const { return size_; }

  // Writes the values of sample `index`, spec().bytes() bytes at an address that is aligned for their type,
  // and its spec().labels.elements() labels: classes, or the bits of float32 targets. `values` or `labels`
  // may be null if they are not wanted. Requires 0 <= index < size(). Blocks on reads of files, if the source
  // does not hold its samples in memory. DataLoss or InvalidArgument names file and sample; a float that is
  // not finite is InvalidArgument.
  virtual absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const = 0;

  // Announces that sample `index` will be read soon, so that its memory can be fetched meanwhile. Has no
  // effect on what is read. Requires 0 <= index < size(). Does not block.
  virtual void Expect(int64_t index) const { static_cast<void>(index); }

 private:
  const SampleSpec spec_;
  const int64_t size_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_SAMPLE_SOURCE_H_
