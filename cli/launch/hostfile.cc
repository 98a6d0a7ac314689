#include "cli/launch/hostfile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace castor::cli {
namespace {

// Returns true if `host` can be the name of a machine, and is no option of a
// remote shell.
bool IsHost(absl::string_view host) {
  return !host.empty() && host[0] != '-' &&
         std::all_of(host.begin(), host.end(), [](char c) {
           return absl::ascii_isalnum(c) || absl::StrContains("@._:%-", c);
         });
}

// Takes HOST:N apart; of two colons or more, which are an IPv6 address's, only
// behind brackets. False: there is no N.
bool TakeSlots(absl::string_view* host, absl::string_view* slots) {
  const size_t bracket = host->rfind(']');
  const size_t colon = host->rfind(':');
  if (colon == absl::string_view::npos) return false;
  if (bracket == absl::string_view::npos ? host->find(':') != colon
                                         : colon < bracket) {
    return false;
  }
  *slots = host->substr(colon + 1);
  *host = host->substr(0, colon);
  return true;
}

// "user@[fe80::1]" as remote shells take it, without the brackets.
std::string WithoutBrackets(absl::string_view host) {
  const size_t open = host.find('[');
  if (open == absl::string_view::npos || host.back() != ']' ||
      (open > 0 && host[open - 1] != '@')) {
    return std::string(host);
  }
  return absl::StrCat(host.substr(0, open),
                      host.substr(open + 1, host.size() - open - 2));
}

constexpr absl::string_view kForms = "a line is HOST, HOST:N or HOST slots=N";

}  // namespace

absl::StatusOr<std::vector<HostSlots>> ParseHostfile(absl::string_view name,
                                                     absl::string_view text) {
  std::vector<HostSlots> hosts;
  int line_number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    line = line.substr(0, line.find('#'));
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    const auto refuse = [&](absl::string_view why) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ", line ", line_number, ": ", why, "; ", kForms));
    };
    absl::string_view host = words[0], slots;
    bool counted = TakeSlots(&host, &slots);
    HostSlots entry = {.host = WithoutBrackets(host)};
    if (!IsHost(entry.host)) {
      return refuse(absl::StrCat("\"", words[0], "\" is no machine's name"));
    }
    if (words.size() > 1) {
      absl::string_view count = words[1];
      const bool known = absl::ConsumePrefix(&count, "slots=");
      if (!known || words.size() > 2) {
        return refuse(
            absl::StrCat("\"", words[known ? 2 : 1], "\" is not known here"));
      }
      if (counted) {
        return refuse(absl::StrCat("\"", words[0], "\" and \"", words[1],
                                   "\" both say how many slots"));
      }
      counted = true;
      slots = count;
    }
    if (counted && (!absl::SimpleAtoi(slots, &entry.slots) || entry.slots < 1 ||
                    entry.slots > kMaxRanks)) {
      return refuse(absl::StrCat("slots: \"", slots,
                                 "\" is not a number from 1 to ", kMaxRanks));
    }
    const auto same = std::find_if(
        hosts.begin(), hosts.end(),
        [&](const HostSlots& other) { return other.host == entry.host; });
    if (same != hosts.end()) {
      if (same->slots > kMaxRanks - entry.slots) {
        return refuse(absl::StrCat(entry.host, " gets more than ", kMaxRanks,
                                   " slots in all"));
      }
      same->slots += entry.slots;
    } else {
      hosts.push_back(entry);
    }
  }
  if (hosts.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " names no machine; ", kForms));
  }
  return hosts;
}

absl::StatusOr<std::vector<HostSlots>> ReadHostfile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  if (in) text << in.rdbuf();
  if (!in) {
    const std::string why = absl::StrCat(path, ": ", std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(why)
                           : absl::PermissionDeniedError(why);
  }
  return ParseHostfile(path, text.str());
}

absl::StatusOr<std::vector<RankPlace>> PlaceRanks(
    const std::vector<HostSlots>& hosts, int num_ranks) {
  int64_t slots = 0;
  for (const HostSlots& host : hosts) slots += host.slots;
  if (num_ranks > slots) {
    return absl::InvalidArgumentError(
        absl::StrCat(num_ranks, " ranks, and the hostfile has ", slots,
                     " slots: add machines or slots=N"));
  }
  int64_t left = num_ranks > 0 ? num_ranks : slots;
  if (left > kMaxRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("the hostfile has ", slots, " slots, and a run at most ",
                     kMaxRanks, " ranks: say how many (--nproc)"));
  }
  std::vector<RankPlace> places;
  for (const HostSlots& host : hosts) {
    const int here = static_cast<int>(std::min<int64_t>(left, host.slots));
    for (int i = 0; i < here; ++i) {
      places.push_back(
          {.host = host.host, .local_rank = i, .local_size = here});
    }
    left -= here;
  }
  return places;
}

}  // namespace castor::cli
