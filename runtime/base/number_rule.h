// The default and the range of a number that a user may write in a job. Rules are kept in tables: runtime/job
// has one table, and each kind of layer has its own table. Pure; any thread.
#ifndef TETHYS_RUNTIME_BASE_NUMBER_RULE_H_
#define TETHYS_RUNTIME_BASE_NUMBER_RULE_H_

#include <limits>
#include <string>

#include "absl/strings/str_format.h"

namespace tethys {

struct NumberBounds {
  double least = 0;
  double most = 0;
  bool open_least = false;  // `least` itself is not allowed.
  bool open_most = false;

  // If the upper end is open, the value must be below it even after rounding to float, because devices
  // compute in float.
  bool Contain(double value) const {
    return (open_least ? value > least : value >= least) &&
           (open_most ? static_cast<float>(value) < most : value <= most);
  }
  std::string Text() const {
    return absl::StrFormat("must be %s %.15g and %s %.15g", open_least ? "above" : "at least", least,
                           open_most ? "below" : "at most", most);
  }
};
constexpr NumberBounds From(double least, double most) { return {least, most}; }
constexpr NumberBounds Above(double least, double most) { return {least, most, true, false}; }
constexpr NumberBounds Between(double least, double most) { return {least, most, true, true}; }
inline constexpr NumberBounds kBelowOne = {0, 1, false, true};

struct NumberRule {
  const char* field;  // The path of the field in the message that the table describes.
  double default_value;
  NumberBounds bounds;
};
// Values of `default_value` for numbers without a default. kRequired: the user must write the number. kUnset:
// the user may leave the number out.
inline constexpr double kRequired = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kUnset = -std::numeric_limits<double>::infinity();

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_NUMBER_RULE_H_
