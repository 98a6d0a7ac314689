// The instructions that the machine knows, by their names.
#ifndef CASTOR_KERNELS_PTX_OPERATIONS_H_
#define CASTOR_KERNELS_PTX_OPERATIONS_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/ptx/program.h"

namespace castor::kernels::ptx {

// The syntax of an instruction.
enum class Form : uint8_t {
  kPlain,    // op d, a, b, ...
  kLoad,     // op d, [a]; op {d, ...}, [a]
  kStore,    // op [a], b; op [a], {b, ...}
  kAtomic,   // op d, [a], b, ...
  kCopy,     // op [a], [b], n, m
  kShuffle,  // op d|p, a, b, c, mask
  kBranch,   // op label
  kMove,     // op d, a, of which one may be {b, c}
};

struct Operation {
  Execute execute = nullptr;
  Form form = Form::kPlain;
  Flow flow = Flow::kNext;
  // Bytes of each operand, in order (Operand::bytes), braces left out. Loads
  // and stores take wider registers too.
  std::vector<int> widths = {};
};

// Returns null if there is no operation of this name.
const Operation* FindOperation(absl::string_view name);

}  // namespace castor::kernels::ptx

#endif  // CASTOR_KERNELS_PTX_OPERATIONS_H_
