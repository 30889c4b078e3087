// Rewords errors of protobuf's parser for job files. Pure; any thread.
#ifndef TETHYS_RUNTIME_JOB_PARSER_REMEDIES_H_
#define TETHYS_RUNTIME_JOB_PARSER_REMEDIES_H_

#include <string>

namespace tethys {

// Returns an error message of protobuf's parser, with a remedy added if the wording is recognised. The
// recognised wording is that of protobuf 3.21; if another version words a message differently, only the
// remedy is missing.
std::string WithRemedy(const std::string& message);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_PARSER_REMEDIES_H_
