// The accuracy of each class in an evaluation. Thread-compatible.
#ifndef TETHYS_DEPLOY_DESCRIBE_CLASS_ACCURACY_H_
#define TETHYS_DEPLOY_DESCRIBE_CLASS_ACCURACY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tethys {

class ClassAccuracy {
 public:
  // Counts a sample.
  void Add(int64_t label, int64_t predicted) { ++counts_[label][predicted]; }

  // A table with a line for each class that at least one sample has as label. A line has the number of the
  // class and, if `names` is not empty, its name; the number of samples of the class; the share of these
  // samples that was classified right; and the most frequent wrong prediction for them. If there are more
  // than kMostShown classes, only the least accurate classes are listed. Empty without samples.
  static constexpr size_t kMostShown = 30;
  std::string Text(const std::vector<std::string>& names) const;

 private:
  // For each label and each predicted class, the number of samples.
  std::map<int64_t, std::map<int64_t, int64_t>> counts_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_DESCRIBE_CLASS_ACCURACY_H_
