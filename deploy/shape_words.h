// Shapes of jobs in texts for people. Pure; any thread.
#ifndef TETHYS_DEPLOY_SHAPE_WORDS_H_
#define TETHYS_DEPLOY_SHAPE_WORDS_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/shape/job_shape.h"

namespace tethys {

// The shape with the strategy's name: "ps_sync, 3 workers, 1 server".
std::string ShapeList(const JobShape& shape);

// The numbers of processes: "3 workers and 1 server".
std::string ProcessesText(const JobShape& shape);

// The shape in a cell or a line: "ps_sync, 3 workers and 1 server", "local".
std::string ShapeText(const JobShape& shape);

// The shape within a sentence: "ps_sync with 3 workers and 1 server", "local".
std::string ShapePhrase(const JobShape& shape);

// The shape for readers who do not know the names of strategies: "one worker alone", "3 mirrored workers", "3
// workers at most 2 steps apart with 1 parameter server".
std::string ShapeWords(const JobShape& shape);

// Sentences on how workers of these strategies exchange gradients, for readers who do not know the names of
// strategies. A way of exchanging that several strategies share is explained once.
std::vector<std::string> StrategyNotes(absl::Span<const JobStrategy> strategies);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SHAPE_WORDS_H_
