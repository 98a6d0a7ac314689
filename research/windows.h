// The part of a step's program (tight_bound.h) that tells *windows* apart.
//
// A window is what lies between the ends of two of the model's operators. The
// step is as long as its windows are together, and each of them no shorter than
// the work of compute and of the two directions of the bus in it. Copies on
// their way take room while operators run: of a payload that comes, the part
// that has come by the end of a window; of gradients that leave, the part that
// leaves after it. So where an operator leaves no room for what comes next the
// bus stands still, and the copies that it did not make there are added to its
// work elsewhere.
//
// Copies may be made part by part and in any order, as long as a payload comes
// after its use before the gap and, where its gradients are clipped, not before
// the last ones of all are written.
//
// Where there is no room for the whole of a chunk, however, no part of it is
// there. So copies and work of the host that must be done between two
// operators, one after the other, take their time there (waits.cc).
#ifndef CASTOR_RESEARCH_WINDOWS_H_
#define CASTOR_RESEARCH_WINDOWS_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "benchmarks/linear_program.h"
#include "memory/plan/residency/use_index.h"
#include "memory/plan/simulate/simulator.h"
#include "research/tight_bound.h"

namespace castor {

class TightBound::Windows {
 public:
  // Adds to the program of `bound`, which has all other variables by now, and
  // outlives it.
  explicit Windows(TightBound* bound);

  // Sets the variables that it added.
  void SetIn(const Plan& plan, const PlanCost& cost,
             std::vector<double>* point) const;

 private:
  using Row = LinearProgram::Row;
  using Changes = std::vector<std::pair<int64_t, double>>;

  struct Window {
    int64_t end = 0;  // the operator with which it ends
    int64_t variable = 0;
  };
  // The part of a copy that crosses the bus in windows [first, last].
  struct Part {
    int64_t first = 0;
    int64_t last = 0;
    int64_t variable = 0;
  };
  struct Copy {
    int64_t chunk = 0;
    Side side = Side::kHost;  // of the chunk
    // For a fetch, the ends of its gap; for gradients, their last write and
    // their reduce.
    int64_t from = 0;
    int64_t to = 0;
    double ms = 0;
    // The time of the host's update that a fetch after the norm waits for.
    double update_ms = 0;
    // The time for which a fetch that waits for the host waits for gradients
    // that are written before the gap, while they are copied there, reduced and
    // perhaps used for an update; else 0.
    double gradients_ms = 0;
    int64_t written = -1;  // and the operator that writes them
    // The operator next to the copy's end of its gap, a fetch's last and that
    // of gradients first, that leaves no room for the chunk; or -1.
    int64_t no_room = -1;
    int64_t stay = -1;  // variable: the part that needs not be fetched
    std::vector<Part> parts = {};
  };
  // The work of one resource, for each window and each group of them.
  struct Work {
    std::vector<Row> windows, groups;
  };
  class Timeline;

  int64_t AddVariable(double at_most);
  // Finds the fetches at the ends of gaps, and the copies of gradients after
  // the last write before each reduce.
  void FindCopies();
  void FindFetches(const UseIndex& index, Side side);
  // Returns how long the host works on the chunk over [from, to], in ms.
  double HostMs(int64_t chunk, int64_t from, int64_t to) const;
  // The first operator after this one, within a step, that leaves no room for
  // the chunk; or -1.
  int64_t FirstWithoutRoom(int64_t chunk, int64_t from) const;
  void ChooseEnds();
  // Returns about how many windows there may be, so that a solver takes seconds
  // for as many chunks.
  int64_t MostWindows() const;
  void AddEvenEnds(const std::vector<int64_t>& operators,
                   std::vector<bool>* is_end) const;
  void AddTightEnds(const std::vector<int64_t>& operators,
                    std::vector<bool>* is_end) const;
  void AddCompute();
  void AddFetches();
  void AddGradients();
  // Where gradients are clipped, the host updates one chunk after the other
  // when the copies of all gradients are over, and so do the device and, behind
  // it, the operators of the next step. So from the end of a window before the
  // last write to that of one after it there is time for the copies of
  // gradients that are written in between, and for the updates of chunks that
  // are fetched in between, or the device's and the operators.
  void AddNorm();
  // Return variables for the host's updates, and for the device's work, after
  // the norm and until each of these windows ends; -1 where there is nothing.
  std::vector<int64_t> UpdatesOfHost(int64_t first, int64_t end);
  std::vector<int64_t> WorkAfterNorm(int64_t first, int64_t end);
  // The share of a copy that is made: `always` and the changes together.
  struct Share {
    double always = 0;
    Changes changes;
  };
  // `is_summed`: whether it is made for gradients that the device adds up, too.
  Share ShareOf(const Copy& copy, bool is_summed) const;
  // Adds waits where copies take longer than the operators between their ends.
  void AddWaits();
  // Does the same for gradients that must have gone before a payload can come.
  void AddExchanges(
      const Copy& gradients,
      const std::vector<std::vector<const Copy*>>& fetches_before);
  // A wait from the end of operator `from` to the beginning of `to`, for a plan
  // that has all of `shares`.
  struct Wait {
    int64_t from = 0;
    int64_t to = 0;
    double longer_ms = 0;  // than the operators in between
    std::vector<Share> shares;
  };
  // Adds that there are at least `ms` in between.
  void AddWait(int64_t from, int64_t to, double ms, std::vector<Share> shares);
  // Adds that windows [first, last] are as long as their operators and these
  // waits, which lie in them one after the other.
  void AddTogether(int64_t first, int64_t last,
                   const std::vector<const Wait*>& waits);
  // Adds for each window those waits that follow one another and take the
  // longest, and each wait for itself.
  void AddWaitsOfWindows();
  double ComputeMs(int64_t from, int64_t to) const;  // over [from, to)
  // Adds a variable that is at least `before` and the changes together.
  int64_t AddSum(int64_t before, Changes changes, double always);
  // Adds what a part takes of a resource.
  void AddPart(const Part& part, double ms, Work* work) const;
  void AddWork(Work work);
  // Counts the part as on its way over [from, to), around the step's end too.
  void Hold(const Copy& copy, const Part& part, int64_t from, int64_t to);
  void AddRoom();

  bool Writes(int64_t moment, int64_t chunk) const;
  double FetchMs(int64_t chunk) const;
  double GradientsMs(int64_t chunk) const;

  int64_t windows() const { return static_cast<int64_t>(windows_.size()); }
  // The window in which an operator ends. Windows count on around the step's
  // end, as moments do.
  int64_t WindowAt(int64_t moment) const;
  int64_t EndOf(int64_t window) const;
  int64_t GroupOf(int64_t window) const;

  const TightBound& bound_;
  const PlanRequest& request_;
  const StepTrace& trace_;
  LinearProgram& program_;
  const int64_t moments_;
  // Where gradients are clipped, the operator before whose end no chunk is
  // updated, or -1.
  int64_t last_write_ = -1;
  std::vector<Window> windows_;
  std::vector<Copy> fetches_;
  std::vector<Copy> gradients_;
  // By moment and at the end, how long the operators before it take.
  std::vector<double> compute_ms_;
  std::vector<std::vector<Wait>> waits_;  // by window, of those in one alone
  // By moment, the changes there of the MiB that are on their way.
  std::vector<Changes> changes_;
  std::vector<Held> held_;
};

}  // namespace castor

#endif  // CASTOR_RESEARCH_WINDOWS_H_
