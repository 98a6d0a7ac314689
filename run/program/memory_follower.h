// Which budget a run should have that follows what others leave free of its
// device's memory.
//
// The room of a run is RoomFor (run/first_budget.h), on several ranks the least
// of all of them. It is looked at between any two steps. A budget that is more
// than a thirty-second above the room shrinks to it at once. One that is more
// than a sixteenth below it grows to it, when that was so before kGrowAfter
// steps in a row: whoever takes a little and gives it back changes nothing. A
// change that was refused is tried again after twice as many steps, at most
// kMostWait.
#ifndef CASTOR_RUN_PROGRAM_MEMORY_FOLLOWER_H_
#define CASTOR_RUN_PROGRAM_MEMORY_FOLLOWER_H_

#include <cstdint>
#include <optional>

namespace castor {

class MemoryFollower {
 public:
  static constexpr int64_t kGrowAfter = 4;  // steps
  static constexpr int64_t kMostWait = 64;  // steps

  // Between two steps: the budget to change to, if any. It is no less than
  // `least` and no more than `most`, whatever the room. All in bytes.
  std::optional<int64_t> Look(int64_t room, int64_t budget, int64_t least,
                              int64_t most);
  // The latest change was made, or was not possible.
  void Changed();
  void Refused();

 private:
  int64_t wait_ = kGrowAfter;  // before a budget grows
  int64_t more_in_row_ = 0;    // steps with room for a larger one
};

}  // namespace castor

#endif  // CASTOR_RUN_PROGRAM_MEMORY_FOLLOWER_H_
