#include "runtime/device/cuda/profiler.h"

#include <nvtx3/nvToolsExt.h>

namespace tethys::cuda {

// The number is passed as a payload beside the name, so that no text is formatted in a step.
void BeginRange(const char* name, int64_t number) {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  attributes.payload.llValue = number;
  nvtxRangePushEx(&attributes);
}

void EndRange() { nvtxRangePop(); }

}  // namespace tethys::cuda
