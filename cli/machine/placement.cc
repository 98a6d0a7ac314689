#include "cli/machine/placement.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "cli/machine/apply_share.h"
#include "device/topology/topology.h"

namespace castor::cli {
namespace {

absl::StatusOr<Place> OwnPlace() {
  CASTOR_ASSIGN_OR_RETURN(const Topology topology, Topology::OfThisMachine());
  return PlaceOfThisProcess(topology);
}

absl::Status Bind(const ProcessorSet& processors) {
  CASTOR_ASSIGN_OR_RETURN(const Topology topology, Topology::OfThisMachine());
  if (topology.Binding() == processors) return absl::OkStatus();
  return topology.Bind(processors);
}

std::string Plural(int64_t n, absl::string_view what) {
  return absl::StrCat(n, " ", what, n == 1 ? "" : "s");
}

// "node-a: 16 processors (12 of them allowed), memory 64.0 GiB, NUMA node 0
// 32.0 GiB, 1 32.0 GiB"
std::string FormatMachine(const Place& place, int64_t ranks) {
  std::string text =
      absl::StrCat(place.host, ": ", Plural(ranks, "rank"), ", ",
                   Plural(place.machine_processors, "processor"));
  if (place.allowed_processors < place.machine_processors) {
    absl::StrAppend(&text, " (", place.allowed_processors,
                    " allowed by its cpuset)");
  }
  int64_t memory = place.memory.front().bytes;
  for (const MemoryLimit& limit : place.memory) {
    memory = std::min(memory, limit.bytes);
  }
  absl::StrAppend(&text, ", memory ", FormatBytes(memory));
  if (memory < place.memory.front().bytes) {
    absl::StrAppend(&text, " (of ", FormatBytes(place.memory.front().bytes),
                    ", by its control group)");
  }
  if (place.nodes.size() > 1) {
    absl::StrAppend(&text, ", NUMA nodes ",
                    absl::StrJoin(place.nodes, ", ",
                                  [](std::string* out, const PlaceNode& node) {
                                    absl::StrAppend(
                                        out, node.node, " (",
                                        FormatBytes(node.memory_bytes), ")");
                                  }));
  }
  return text;
}

}  // namespace

absl::StatusOr<Placement> FindPlacement(RankGroup& group) {
  const absl::StatusOr<Place> own = OwnPlace();
  CASTOR_RETURN_IF_ERROR(group.Agree("place", own.status()));
  CASTOR_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                          group.Exchange("place", PlaceText(*own)));
  Placement placement;
  for (const std::string& text : texts) {
    CASTOR_ASSIGN_OR_RETURN(Place place, ParsePlace(text));
    placement.places.push_back(std::move(place));
  }
  placement.shares = DivideMachines(placement.places);
  return placement;
}

absl::StatusOr<RankShare> TakeShare(RankGroup& group, Config* config,
                                    std::vector<std::string>* notes) {
  if (group.world_size() == 1) return RankShare();
  CASTOR_ASSIGN_OR_RETURN(const Placement placement, FindPlacement(group));
  *notes = ShareNotes(placement.places, placement.shares);
  const RankShare& share = placement.shares[group.rank()];
  ApplyShare(share, config);
  // A process that cannot be bound runs all the same, at worst more slowly.
  const absl::Status bound = Bind(share.processors);
  CASTOR_ASSIGN_OR_RETURN(
      const std::vector<std::string> reasons,
      group.Exchange("bound",
                     bound.ok() ? absl::string_view() : bound.message()));
  for (size_t rank = 0; rank < reasons.size(); ++rank) {
    if (reasons[rank].empty()) continue;
    notes->push_back(absl::StrCat("rank ", rank, ": ", reasons[rank],
                                  "; it shares processors with others"));
    break;  // one tells for all
  }
  return share;
}

std::string FormatPlacement(const Placement& placement,
                            absl::string_view launcher,
                            absl::string_view network) {
  const std::vector<RankShare>& shares = placement.shares;
  const RankShare& any = shares.front();
  std::string text =
      absl::StrCat(Plural(static_cast<int64_t>(shares.size()), "rank"), " on ",
                   Plural(any.machines, "machine"), ", started by ", launcher,
                   ", connected by ", network, "\n");
  size_t width = absl::string_view("processors").size();
  for (const RankShare& share : shares) {
    width = std::max(width, FormatProcessors(share.processors).size());
  }
  for (int machine = 0; machine < any.machines; ++machine) {
    for (const RankShare& share : shares) {
      if (share.machine != machine) continue;
      const Place& place = placement.places[share.rank];
      if (share.local_rank == 0) {
        absl::StrAppend(&text, FormatMachine(place, share.local_size), "\n",
                        absl::StrFormat("  %6s  %-*s  %-10s %12s\n", "rank",
                                        static_cast<int>(width), "processors",
                                        "NUMA nodes", "memory"));
      }
      absl::StrAppend(
          &text,
          absl::StrFormat(
              "  %6d  %-*s  %-10s %12s%s\n", share.rank,
              static_cast<int>(width), FormatProcessors(share.processors),
              FormatProcessors(share.nodes), FormatBytes(share.machine_bytes),
              share.oversubscribed ? "  oversubscribed" : ""));
    }
  }
  absl::StrAppend(&text, "each rank: ", Plural(any.threads, "thread"));
  if (any.largest_local_size > 1) {
    absl::StrAppend(&text, ", 1/", any.largest_local_size,
                    " of memory.host_memory and memory.pinned_memory, which "
                    "are a machine's, and memory.device_memory of its own");
  }
  absl::StrAppend(&text, "\n");
  for (const std::string& note :
       ShareNotes(placement.places, placement.shares)) {
    absl::StrAppend(&text, "note: ", note, "\n");
  }
  return text;
}

}  // namespace castor::cli
