// A first job for data: network, optimizer and length are guessed from what the samples are. Pure; any
// thread.
#ifndef TETHYS_DEPLOY_FIRST_JOB_FIRST_JOB_H_
#define TETHYS_DEPLOY_FIRST_JOB_FIRST_JOB_H_

#include <map>
#include <string>

#include "deploy/first_job/sample_facts.h"
#include "deploy/first_job/source_guess.h"
#include "proto/job.pb.h"

namespace tethys {

struct FirstJob {
  proto::Job job;  // Without defaults, as a user writes it.
  // The reasons of guesses, by the paths of fields: "data.classes" to a sentence.
  std::map<std::string, std::string> reasons;
};
FirstJob GuessJob(const SourceGuess& source, const SampleFacts& facts);

// The text of the job file, with the reasons as comments. `about` are sentences at its beginning.
std::string FirstJobText(const FirstJob& first, const std::string& about);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_FIRST_JOB_FIRST_JOB_H_
