// The guesses for each format of data, and what they share. Used by source_guess.cc. Pure; any thread.
#ifndef TETHYS_DEPLOY_FIRST_JOB_FORMAT_GUESSES_H_
#define TETHYS_DEPLOY_FIRST_JOB_FORMAT_GUESSES_H_

#include <string>
#include <vector>

#include "deploy/first_job/found_data.h"
#include "deploy/first_job/name_words.h"
#include "deploy/first_job/source_guess.h"
#include "runtime/base/status.h"

namespace tethys {

// Each requires that the folder holds data of the format.
absl::StatusOr<SourceGuess> GuessIdx(const FoundData& found);
absl::StatusOr<SourceGuess> GuessNpy(const FoundData& found);
absl::StatusOr<SourceGuess> GuessCifar(const FoundData& found);
absl::StatusOr<SourceGuess> GuessRecords(const FoundData& found);
absl::StatusOr<SourceGuess> GuessTable(const FoundData& found);
absl::StatusOr<SourceGuess> GuessPictures(const FoundData& found);

// The names for training and for the test. If some names say that they are for training, names that say
// nothing are left out; otherwise these are for training. Names for validation are for the test if no name
// is. If all names are for a test, they are for training.
struct NamesByPart {
  std::vector<std::string> train, test, left_out;
};
NamesByPart DivideNames(const std::vector<std::string>& names);

template <typename Files>
std::vector<std::string> NamesOf(const Files& files) {
  std::vector<std::string> names;
  for (const auto& file : files) names.push_back(file.name);
  return names;
}

// The path of a file in the folder.
std::string PathOf(const FoundData& found, const std::string& name);
// The paths of files as a field whose values are patterns (glob(7)) holds them: one pattern if possible.
std::vector<std::string> PatternsOf(const FoundData& found, const std::vector<std::string>& names);
// Writes the paths into a message with lists of files: proto::Cifar, proto::Tfrecord or proto::Csv.
template <typename Fields>
void WriteLists(const FoundData& found, const NamesByPart& parts, Fields& fields) {
  for (const std::string& pattern : PatternsOf(found, parts.train)) fields.add_train(pattern);
  for (const std::string& pattern : PatternsOf(found, parts.test)) fields.add_test(pattern);
}

// "a, b and 7 more".
std::string SomeNames(const std::vector<std::string>& names);

// An error about the folder that ends with what to do.
absl::Status CannotGuess(const FoundData& found, absl::string_view problem, absl::string_view remedy);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_FIRST_JOB_FORMAT_GUESSES_H_
