#include "runtime/cluster/order_reader.h"

#include <utility>

#include "absl/types/optional.h"

namespace tethys {

absl::Status OrderReader::Read() {
  while (course_.takes_orders()) {
    absl::optional<proto::ToTask> order;
    if (course_.waits()) {
      TETHYS_ASSIGN_OR_RETURN(order, session_.Receive());
    } else {
      TETHYS_ASSIGN_OR_RETURN(order, session_.Poll());
    }
    if (!order.has_value()) break;
    TETHYS_RETURN_IF_ERROR(course_.OnOrder(*std::move(order)));
    Answer();
  }
  return absl::OkStatus();
}

void OrderReader::Answer() {
  for (proto::FromTask& message : course_.TakeMessages()) session_.Send(std::move(message));
}

}  // namespace tethys
