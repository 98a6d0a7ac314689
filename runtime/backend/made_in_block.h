// The storages that operators make while a block runs, for whoever wants to
// know which of them are there at its end (Checkpoint in
// runtime/autograd/tape.h).
#ifndef CASTOR_RUNTIME_BACKEND_MADE_IN_BLOCK_H_
#define CASTOR_RUNTIME_BACKEND_MADE_IN_BLOCK_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace castor {

class MadeInBlock {
 public:
  void Begin() {
    in_block_ = true;
    made_.clear();
  }
  void Add(int64_t storage) {
    if (in_block_) made_.push_back(storage);
  }
  void Remove(int64_t storage) {
    if (in_block_) std::erase(made_, storage);
  }
  // Those that are there and are not `output`, in the order of making: what the
  // block's own backward alone has handles of.
  std::vector<int64_t> End(int64_t output) {
    in_block_ = false;
    std::erase(made_, output);
    return std::exchange(made_, {});
  }

 private:
  bool in_block_ = false;
  std::vector<int64_t> made_;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_BACKEND_MADE_IN_BLOCK_H_
