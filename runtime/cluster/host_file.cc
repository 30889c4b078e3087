#include "runtime/cluster/host_file.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "runtime/base/file.h"
#include "runtime/base/text_encoding.h"

namespace tethys {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxFolderBytes = 1024;

struct Word {
  absl::string_view text;
  int column = 0;  // The column in the line, from 1.
};

std::vector<Word> WordsOf(absl::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<Word> words;
  size_t at = 0;
  while (at < line.size()) {
    if (absl::ascii_isspace(static_cast<unsigned char>(line[at]))) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < line.size() && !absl::ascii_isspace(static_cast<unsigned char>(line[end]))) ++end;
    words.push_back({line.substr(at, end - at), static_cast<int>(at) + 1});
    at = end;
  }
  return words;
}

absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(what); }

// Words must be printable, because errors quote them on terminals. Comments may contain any bytes.
absl::Status CheckPrintable(absl::string_view word) {
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isgraph(byte)) continue;
    return Wrong(absl::StrFormat("a word has the byte 0x%02X; write plain ASCII, without a byte order mark",
                                 static_cast<int>(byte)));
  }
  return absl::OkStatus();
}

// Limits a name to kMaxNameBytes, because each host of a line keeps its own copy. The error quotes `text`.
absl::Status CheckLength(absl::string_view text, size_t bytes) {
  if (bytes <= kMaxNameBytes) return absl::OkStatus();
  return Wrong(absl::StrCat("'", text.substr(0, 20), "...' is too long: a name has at most ", kMaxNameBytes,
                            " characters"));
}

// Expands an item of a bracket, "3" or "03-11". Numbers are padded with zeros to the width of the first
// number.
absl::Status ExpandItem(absl::string_view item, std::vector<std::string>& out) {
  const std::vector<absl::string_view> ends = absl::StrSplit(item, absl::MaxSplits('-', 1));
  uint32_t first = 0, last = 0;
  const bool numbers = std::all_of(ends.begin(), ends.end(), [](absl::string_view end) {
    return !end.empty() && end.size() <= 9 && std::all_of(end.begin(), end.end(), absl::ascii_isdigit);
  });
  if (!numbers || !absl::SimpleAtoi(ends.front(), &first) || !absl::SimpleAtoi(ends.back(), &last)) {
    return Wrong(absl::StrCat("'", item, "' is no number or range; write [1-6] or [1,3,7-9]"));
  }
  if (last < first) return Wrong(absl::StrCat("the range ", item, " ends before it begins"));
  if (last - first >= kMaxHosts || out.size() + (last - first) >= kMaxHosts) {
    return Wrong(absl::StrCat("the range ", item, " is longer than ", kMaxHosts, " hosts"));
  }
  for (uint32_t number = first; number <= last; ++number) {
    out.push_back(absl::StrFormat("%0*u", static_cast<int>(ends.front().size()), number));
  }
  return absl::OkStatus();
}

// Expands "slave[1-3]" into slave1, slave2, slave3. A pattern without brackets, or an IPv6 address in
// brackets, is kept as it is.
absl::StatusOr<std::vector<std::string>> Expand(absl::string_view pattern) {
  const size_t open = pattern.find('[');
  const bool is_address = open == 0 && pattern.find(':') != absl::string_view::npos;
  if (open == absl::string_view::npos || is_address) return std::vector<std::string>{std::string(pattern)};
  const size_t close = pattern.find(']', open);
  if (close == absl::string_view::npos) {
    return Wrong(absl::StrCat("'", pattern, "' lacks the ] of its range; write slave[1-6]"));
  }
  const absl::string_view rest = pattern.substr(close + 1);
  if (rest.find_first_of("[]") != absl::string_view::npos) {
    return Wrong(absl::StrCat("'", pattern, "' has more than one range; write one line for each range"));
  }
  TETHYS_RETURN_IF_ERROR(CheckLength(pattern, open + rest.size()));
  std::vector<std::string> numbers;
  for (const absl::string_view item : absl::StrSplit(pattern.substr(open + 1, close - open - 1), ',')) {
    TETHYS_RETURN_IF_ERROR(ExpandItem(item, numbers));
  }
  std::vector<std::string> names;
  for (const std::string& number : numbers) {
    names.push_back(absl::StrCat(pattern.substr(0, open), number, rest));
  }
  return names;
}

// A name must not be mistaken for an option of ssh or for shell syntax.
absl::Status CheckName(absl::string_view what, absl::string_view name) {
  TETHYS_RETURN_IF_ERROR(CheckLength(name, name.size()));
  const bool clean = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) ||
           absl::string_view("-._:%[]").find(static_cast<char>(c)) != absl::string_view::npos;
  });
  if (clean && !name.empty() && name[0] != '-') return absl::OkStatus();
  return Wrong(
      absl::StrCat("'", name, "' is no ", what,
                   "; it must consist of letters, digits, '.', '-' and '_', and must not begin with '-'"));
}

// "[fd00::7]" without its brackets; other words unchanged.
absl::string_view WithoutBrackets(absl::string_view word) {
  const bool bracketed = word.size() > 2 && word.front() == '[' && word.back() == ']';
  return bracketed && word.find(':') != absl::string_view::npos ? word.substr(1, word.size() - 2) : word;
}

bool IsIpv6(const std::string& address) {
  in6_addr parsed;
  return inet_pton(AF_INET6, address.c_str(), &parsed) == 1;
}

// Checks a host's name, or an IPv6 address with or without a zone ("fe80::1%eth0").
absl::Status CheckHostName(const std::string& name) {
  TETHYS_RETURN_IF_ERROR(CheckName("host name", name));
  if (name.find(':') == std::string::npos || IsIpv6(name.substr(0, name.find('%')))) return absl::OkStatus();
  return Wrong(
      absl::StrCat("'", name, "' is no host name; an IPv6 address is written as fd00::7 or [fd00::7]"));
}

absl::Status CheckAddress(const std::string& address) {
  if (address.find(':') == std::string::npos) return CheckName("address", address);
  if (IsIpv6(address)) return absl::OkStatus();
  return Wrong(
      absl::StrCat("'", address,
                   "' is no address to listen on; write an IPv4 or IPv6 address or a name, without "
                   "a port, as address=10.0.0.1 (ports are chosen by the job; port= is the port of ssh)"));
}

// The path is shown on terminals and becomes part of scripts. CheckPrintable has already checked that the
// path is printable.
absl::Status CheckFolder(absl::string_view folder) {
  if (folder.size() > kMaxFolderBytes) {
    return Wrong(absl::StrCat("folder is longer than ", kMaxFolderBytes, " characters"));
  }
  if (folder.front() == '/' && folder.find_first_not_of('/') != absl::string_view::npos)
    return absl::OkStatus();
  return Wrong(absl::StrCat("folder is '", folder,
                            "'; write an absolute path on that host, as folder=/scratch/me/tethys"));
}

absl::StatusOr<int> Number(absl::string_view name, absl::string_view value, int least, int most) {
  int number = 0;
  if (absl::SimpleAtoi(value, &number) && number >= least && number <= most) return number;
  return Wrong(absl::StrCat(name, " is '", value, "'; write a whole number from ", least, " to ", most));
}

absl::StatusOr<HostRoles> ParseRoles(absl::string_view value) {
  HostRoles roles;
  for (const absl::string_view role : absl::StrSplit(value, ',')) {
    if (role == "chief") {
      roles.chief = true;
    } else if (role == "worker") {
      roles.worker = true;
    } else if (role == "ps") {
      roles.ps = true;
    } else {
      return Wrong(
          absl::StrCat("'", role, "' is no role; write chief, worker, ps, or a list as chief,worker"));
    }
  }
  return roles;
}

// The fields of a line, apart from its hosts' names.
struct LineFields {
  HostEntry common;
  std::vector<std::string> addresses;
  std::vector<std::string> seen;
};

absl::Status TakeField(absl::string_view name, absl::string_view value, LineFields& fields) {
  if (std::find(fields.seen.begin(), fields.seen.end(), name) != fields.seen.end()) {
    return Wrong(absl::StrCat(name, " is given twice"));
  }
  fields.seen.emplace_back(name);
  if (value.empty()) return Wrong(absl::StrCat(name, " has no value; write ", name, "=VALUE without blanks"));
  HostEntry& host = fields.common;
  if (name == "slots") {
    TETHYS_ASSIGN_OR_RETURN(host.slots, Number(name, value, 1, kMaxSlots));
  } else if (name == "max_slots" || name == "max-slots") {
    TETHYS_RETURN_IF_ERROR(Number(name, value, 1, kMaxSlots).status());
  } else if (name == "port") {
    TETHYS_ASSIGN_OR_RETURN(host.ssh_port, Number(name, value, 1, 65535));
  } else if (name == "role") {
    TETHYS_ASSIGN_OR_RETURN(host.roles, ParseRoles(value));
  } else if (name == "kind") {
    TETHYS_RETURN_IF_ERROR(CheckName("kind", value));
    host.kind = std::string(value);
  } else if (name == "address") {
    TETHYS_ASSIGN_OR_RETURN(fields.addresses, Expand(value));
    for (std::string& address : fields.addresses) {
      address = std::string(WithoutBrackets(address));
      TETHYS_RETURN_IF_ERROR(CheckAddress(address));
    }
  } else if (name == "folder") {
    TETHYS_RETURN_IF_ERROR(CheckFolder(value));
    host.folder = std::string(value);
  } else if (name == "price") {
    double price = 0;
    if (!absl::SimpleAtod(value, &price) || !std::isfinite(price) || price < 0) {
      return Wrong(absl::StrCat("price is '", value, "'; write a price per hour, such as 0.25"));
    }
    host.price_per_hour = price;
  } else if (name == "device") {
    TETHYS_ASSIGN_OR_RETURN(host.device, ParseDeviceKind(value));
  } else {
    return Wrong(
        absl::StrCat("there is no setting '", name,
                     "'; the settings are slots, max_slots, role, port, address, folder, price, kind and "
                     "device"));
  }
  return absl::OkStatus();
}

// Splits "host:4" or "[fd00::7]:4", which Horovod and MPICH also write, into name and slots. A name with more
// colons is an IPv6 address.
absl::Status TakeShortSlots(absl::string_view& name, LineFields& fields) {
  const size_t bracket = name.find("]:");
  const size_t colon = bracket == absl::string_view::npos ? name.find(':') : bracket + 1;
  if (colon == absl::string_view::npos || name.find(':', colon + 1) != absl::string_view::npos) {
    return absl::OkStatus();
  }
  const absl::string_view slots = name.substr(colon + 1);
  name = name.substr(0, colon);
  return TakeField("slots", slots, fields);
}

class Parser {
 public:
  explicit Parser(const std::string& path) : path_(path) {}

  absl::StatusOr<std::vector<HostEntry>> Parse(absl::string_view text) {
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      ++line_;
      const std::vector<Word> words = WordsOf(line);
      if (!words.empty()) TETHYS_RETURN_IF_ERROR(ParseLine(words));
    }
    if (hosts_.empty()) {
      return Wrong(
          absl::StrCat(path_, ": no host is named; write a line such as 'slave1 slots=4' for each host"));
    }
    for (HostEntry& host : hosts_) {
      const auto price = kind_prices_.find(host.kind);
      if (!host.price_per_hour && price != kind_prices_.end()) host.price_per_hour = price->second;
    }
    return std::move(hosts_);
  }

 private:
  absl::Status At(int column, const absl::Status& status) const {
    return Annotate(status, absl::StrCat(path_, ":", line_, ":", column));
  }

  absl::Status ParseLine(const std::vector<Word>& words) {
    for (const Word& word : words) {
      const absl::Status printable = CheckPrintable(word.text);
      if (!printable.ok()) return At(word.column, printable);
    }
    LineFields fields;
    for (size_t i = 1; i < words.size(); ++i) {
      const size_t equals = words[i].text.find('=');
      if (equals == absl::string_view::npos) {
        return At(words[i].column, Wrong(absl::StrCat("'", words[i].text,
                                                      "' is not understood; a line is a host, "
                                                      "then words of the form NAME=VALUE without blanks")));
      }
      const absl::Status taken =
          TakeField(words[i].text.substr(0, equals), words[i].text.substr(equals + 1), fields);
      if (!taken.ok()) return At(words[i].column, taken);
    }
    const absl::Status added = AddHosts(words[0].text, fields);
    if (!added.ok()) return At(words[0].column, added);
    return absl::OkStatus();
  }

  absl::Status AddHosts(absl::string_view name, LineFields& fields) {
    TETHYS_RETURN_IF_ERROR(TakeShortSlots(name, fields));
    HostEntry host = fields.common;
    host.line = line_;
    if (const size_t at = name.find('@'); at != absl::string_view::npos) {
      TETHYS_RETURN_IF_ERROR(CheckName("user name", name.substr(0, at)));
      host.user = std::string(name.substr(0, at));
      name.remove_prefix(at + 1);
    }
    if (name.find('=') != absl::string_view::npos) {
      return Wrong(absl::StrCat("the line begins with '", name, "'; a host must come first"));
    }
    TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> names, Expand(name));
    if (!fields.addresses.empty() && fields.addresses.size() != names.size()) {
      return Wrong(absl::StrCat(names.size(), " hosts have ", fields.addresses.size(),
                                " addresses; give each host one address, as in address=10.0.0.[1-6]"));
    }
    if (host.price_per_hour && !host.kind.empty()) {
      const auto [known, added] = kind_prices_.emplace(host.kind, *host.price_per_hour);
      if (!added && known->second != *host.price_per_hour) {
        return Wrong(absl::StrCat("kind ", host.kind, " has price ", known->second,
                                  " in an earlier line and ", *host.price_per_hour,
                                  " here; write one price, or another kind"));
      }
    }
    for (size_t i = 0; i < names.size(); ++i) {
      host.host = std::string(WithoutBrackets(names[i]));
      if (!fields.addresses.empty()) host.address = fields.addresses[i];
      TETHYS_RETURN_IF_ERROR(Add(host));
    }
    return absl::OkStatus();
  }

  absl::Status Add(const HostEntry& host) {
    TETHYS_RETURN_IF_ERROR(CheckHostName(host.host));
    const auto [first, added] = lines_.emplace(host.host, line_);
    if (!added) {
      return Wrong(absl::StrCat("host ", host.host, " is named in line ", first->second,
                                " already; name this host once, with slots=N"));
    }
    if (hosts_.size() >= kMaxHosts) return Wrong(absl::StrCat("more than ", kMaxHosts, " hosts"));
    hosts_.push_back(host);
    return absl::OkStatus();
  }

  const std::string& path_;
  int line_ = 0;
  std::vector<HostEntry> hosts_;
  std::map<std::string, int> lines_;  // For each host, the number of the line that names it.
  std::map<std::string, double> kind_prices_;
};

}  // namespace

absl::StatusOr<std::vector<HostEntry>> ParseHostFile(absl::string_view text, const std::string& path) {
  return Parser(path).Parse(text);
}

absl::StatusOr<proto::Device::Kind> ParseDeviceKind(absl::string_view text) {
  for (const proto::Device::Kind kind : {proto::Device::CPU, proto::Device::CUDA}) {
    if (text == DeviceKindText(kind)) return kind;
  }
  return Wrong(absl::StrCat("'", text, "' is no device; write cpu or cuda"));
}

std::string DeviceKindText(proto::Device::Kind kind) { return kind == proto::Device::CUDA ? "cuda" : "cpu"; }

absl::StatusOr<std::vector<HostEntry>> ReadHostFile(const std::string& path) {
  TETHYS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxFileBytes));
  TETHYS_ASSIGN_OR_RETURN(const absl::string_view plain, WithoutByteOrderMark(text, path));
  return ParseHostFile(plain, path);
}

}  // namespace tethys
