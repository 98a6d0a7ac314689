// Finds what the ranks of a run did at a time, for those who waited for them.
#ifndef CASTOR_INSIGHT_PEERS_H_
#define CASTOR_INSIGHT_PEERS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "insight/trace_index.h"

namespace castor {

class Peers {
 public:
  // None.
  Peers() = default;
  // `ranks` outlive it; their times are on one clock.
  explicit Peers(const std::vector<TraceContents>& ranks);

  // The work that took most of that time on the rank, first of all of its
  // operators: its name, in quotes for an operator. Empty where nothing is
  // known.
  std::string Doing(int64_t rank, int64_t from_ns, int64_t until_ns) const;

 private:
  struct Rank {
    std::unique_ptr<TraceIndex> index;
    // The work of each stream but the network's, ordered by its end.
    std::map<int64_t, std::vector<const WorkRecord*>> works;
  };
  std::map<int64_t, Rank> ranks_;
};

}  // namespace castor

#endif  // CASTOR_INSIGHT_PEERS_H_
