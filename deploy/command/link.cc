#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "deploy/command/verbs.h"
#include "deploy/hosts/link_meter.h"
#include "deploy/run/secret_source.h"
#include "runtime/base/thread.h"

namespace tethys {
namespace {

// Prints an answer in the form of deploy/process/conversation.h.
void SayAnswer(const std::string& line) {
  std::printf("tethys-check %s\ntethys-check end\n", line.c_str());
  std::fflush(stdout);
}

std::string Measure(const JobSecret& secret, absl::string_view listener) {
  const absl::StatusOr<HostPort> address = ParseHostPort(listener);
  const absl::StatusOr<LinkSpeed> speed =
      address.ok() ? MeasureLink(secret, *address) : absl::StatusOr<LinkSpeed>(address.status());
  if (!speed.ok()) return absl::StrCat("failed ", speed.status().message());
  return absl::StrFormat("speed %.9f %.0f %.0f %.9f", speed->round_trip, speed->there, speed->back,
                         speed->block);
}

int Link(const Flags& flags) {
  signal(SIGPIPE, SIG_IGN);
  const absl::StatusOr<JobSecret> secret = ReadSecret(STDIN_FILENO);
  if (!secret.ok()) return Fail("link", secret.status(), kExitBadRequest);
  const absl::StatusOr<std::unique_ptr<LinkListener>> listener =
      LinkListener::Start(*secret, flags.Get("bind", "127.0.0.1"));
  if (!listener.ok()) return Fail("link", listener.status(), kExitFailed);

  // A measurement has a thread of its own, so that the end of standard input ends the process even during a
  // measurement.
  Thread measurement;
  std::string question;
  while (std::getline(std::cin, question)) {
    measurement.Join();
    absl::string_view rest = question;
    if (question == "listen") {
      SayAnswer(absl::StrCat("listening ", HostPortText((*listener)->address())));
    } else if (absl::ConsumePrefix(&rest, "measure ")) {
      const absl::Status started =
          measurement.Start([&secret, peer = std::string(rest)] { SayAnswer(Measure(*secret, peer)); });
      if (!started.ok()) SayAnswer(absl::StrCat("failed ", started.message()));
    } else {
      SayAnswer("failed the question is not understood");
    }
  }
  _exit(kExitSuccess);
}

}  // namespace

Command LinkCommand() {
  return {{.verb = "link",
           .summary = "Measures links to other machines; started by hosts check.",
           .description =
               "The first line on standard input must be TOKEN JOB_ID. Each line after it is a question, "
               "`listen` or `measure HOST:PORT`, answered on standard output; the process ends when "
               "standard input ends.",
           .flags = {{.name = "bind", .value = "HOST", .help = "Address to listen on. Default 127.0.0.1."}},
           .examples = {"tethys link < secret-and-open-pipe"}},
          Link};
}

}  // namespace tethys
