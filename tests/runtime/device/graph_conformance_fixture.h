// The fixture of the tests in graph_conformance.h.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_GRAPH_CONFORMANCE_FIXTURE_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_GRAPH_CONFORMANCE_FIXTURE_H_

#include <memory>

#include "tests/runtime/device/conformance_fixture.h"

namespace tethys {

// Copies a number from the host to the device (Bring), within the device (PassOn), and back to the host
// (Fetch).
class GraphConformance : public ::testing::TestWithParam<DeviceCase> {
 protected:
  GraphConformance()
      : device_(GetParam().create().value()),
        stream_(device_->CreateStream().value()),
        other_(device_->CreateStream().value()),
        in_(Number(MemoryKind::kPinnedHost)),
        first_(Number(MemoryKind::kDevice)),
        second_(Number(MemoryKind::kDevice)),
        out_(Number(MemoryKind::kPinnedHost)) {}

  std::unique_ptr<Buffer> Number(MemoryKind kind) { return device_->Allocate(sizeof(float), kind).value(); }
  std::unique_ptr<Event> NewEvent() { return device_->CreateEvent().value(); }
  float& in() { return *in_->floats(); }
  float out() { return *out_->floats(); }

  absl::Status Bring() { return device_->CopyToDevice(*stream_, first_->data(), in_->data(), sizeof(float)); }
  absl::Status PassOn(Stream& stream) {
    return device_->CopyOnDevice(stream, second_->data(), first_->data(), sizeof(float));
  }
  absl::Status Fetch() { return device_->CopyToHost(*stream_, out_->data(), second_->data(), sizeof(float)); }
  absl::Status BringAndFetch() {
    TETHYS_RETURN_IF_ERROR(Bring());
    TETHYS_RETURN_IF_ERROR(PassOn(*stream_));
    return Fetch();
  }

  // Launches the graph with `number` as input and returns its output.
  float After(Graph& graph, float number) {
    in() = number;
    EXPECT_TRUE(graph.Launch(*stream_).ok());
    EXPECT_TRUE(stream_->Synchronize().ok());
    return out();
  }

  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Stream> stream_, other_;
  const std::unique_ptr<Buffer> in_, first_, second_, out_;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_GRAPH_CONFORMANCE_FIXTURE_H_
