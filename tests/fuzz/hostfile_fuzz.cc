// Any text as a hostfile: machines that a remote shell takes for no option, and
// as many ranks as there are slots; or a line's number.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "cli/launch/hostfile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace castor::cli;  // NOLINT
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto hosts = ParseHostfile("hosts", text);
  if (!hosts.ok()) {
    CASTOR_CHECK(absl::IsInvalidArgument(hosts.status()));
    CASTOR_CHECK(absl::StartsWith(hosts.status().message(), "hosts"));
    return 0;
  }
  int64_t slots = 0;
  for (const HostSlots& host : *hosts) {
    CASTOR_CHECK(!host.host.empty() && host.host[0] != '-' && host.slots >= 1);
    slots += host.slots;
  }
  for (const int ranks : {0, 1}) {
    const auto places = PlaceRanks(*hosts, ranks);
    CASTOR_CHECK(places.ok() == (ranks == 1 || slots <= kMaxRanks));
    if (!places.ok()) continue;
    CASTOR_CHECK(places->size() == size_t(ranks == 1 ? 1 : slots));
    for (const RankPlace& place : *places) {
      CASTOR_CHECK(place.local_rank < place.local_size);
    }
  }
  return 0;
}
