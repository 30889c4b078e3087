// The quality and the cost of a run as text.
#ifndef TETHYS_DEPLOY_DESCRIBE_QUALITY_TEXT_H_
#define TETHYS_DEPLOY_DESCRIBE_QUALITY_TEXT_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/text.h"
#include "proto/summary.pb.h"

namespace tethys {

// The measured quality: "accuracy 0.8512, top-5 0.9876, mean IoU 0.8034, loss 0.4123".
inline std::string QualityText(const proto::Quality& quality) {
  std::string text;
  if (quality.has_accuracy()) absl::StrAppendFormat(&text, "accuracy %.4f, ", quality.accuracy());
  if (quality.has_top5_accuracy()) absl::StrAppendFormat(&text, "top-5 %.4f, ", quality.top5_accuracy());
  if (quality.has_mean_iou()) absl::StrAppendFormat(&text, "mean IoU %.4f, ", quality.mean_iou());
  return absl::StrCat(text, absl::StrFormat("loss %.4f", quality.loss()));
}

// The cost of a run: "0.264, 0.139 an epoch, in the currency of the price, 3,600 per hour"; the cost of an
// epoch is left out if it is not known.
inline std::string CostText(const proto::Cost& cost) {
  std::string text = DigitsText(cost.run(), 4);
  if (cost.epoch() > 0) absl::StrAppend(&text, ", ", DigitsText(cost.epoch(), 4), " an epoch");
  return absl::StrCat(text, ", in the currency of the price, ", DigitsText(cost.price_per_hour(), 4),
                      " per hour");
}

}  // namespace tethys

#endif  // TETHYS_DEPLOY_DESCRIBE_QUALITY_TEXT_H_
