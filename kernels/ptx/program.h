// PTX, the text that nvcc makes of a kernel for a driver to compile ("Parallel
// Thread Execution ISA", NVIDIA), read into a form that machine.h can run.
//
// It knows only the PTX of our kernels: an unknown instruction, directive or
// operand is an error that names it. Registers and their spills, or the order
// of instructions in machine code, are not in the text: NVIDIA's assembler
// chooses them.
#ifndef CASTOR_KERNELS_PTX_PROGRAM_H_
#define CASTOR_KERNELS_PTX_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor::kernels::ptx {

class Warp;
struct Instruction;

inline constexpr int kLanes = 32;

// Lanes, one bit each.
using LaneMask = uint32_t;
inline constexpr LaneMask kAllLanes = 0xffffffffu;

// A register of a warp, or a constant that looks like one: a place in the
// warp's register file. There stand the values of all lanes, in their order;
// those of a predicate as one LaneMask.
struct Operand {
  int32_t place = -1;  // in bytes; -1: the result is not wanted
  int32_t bytes = 0;   // of one lane's value: 2, 4 or 8; 1: a predicate
};

// The meaning of an instruction's name. `execute` executes it for the lanes of
// warp.mask() and reports errors by warp.Fail.
using Execute = void (*)(Warp& warp, const Instruction& instruction);

enum class Flow : uint8_t {
  kNext,
  kBranch,
  kExit,
  kBarrier,   // of the block
  kTogether,  // lanes must come together, to exchange values
  kYield,     // other blocks go on first
};

struct Instruction {
  Execute execute = nullptr;
  Flow flow = Flow::kNext;
  bool guard_is_negated = false;
  int32_t guard = -1;    // the predicate's place; -1: none
  int32_t target = -1;   // of a branch: an index of Program::code
  int64_t offset = 0;    // of an address: bytes behind its register's value
  int32_t members = -1;  // kTogether: the place of the mask of lanes; -1: all
  const Operand* operands = nullptr;  // results first
  int32_t num_operands = 0;
  absl::string_view text;  // of Program::text
};

// A constant of every lane at a place of the register file.
struct Constant {
  int32_t place;
  int32_t bytes;  // of a lane's value, as Operand::bytes
  uint64_t value;
};

// A kernel. It can be moved but not copied, since instructions point into it.
struct Program {
  Program() = default;
  Program(Program&&) = default;
  Program& operator=(Program&&) = default;

  std::string name;
  std::string text;
  std::vector<Instruction> code;
  std::vector<std::vector<Operand>> operands;  // of each instruction
  std::vector<Constant> constants;
  int64_t register_bytes = 0;  // of a warp's register file
  // Places of special registers.
  int32_t thread = -1, block = -1, threads = -1, blocks = -1, lane = -1;
  struct Parameter {
    int64_t at, bytes;
  };
  std::vector<Parameter> parameters;
  int64_t parameter_bytes = 0;  // of all
  int64_t most_threads = 0;     // .maxntid; 0: not said
};

// The kernels of a text of concatenated PTX files, as cuobjdump -ptx prints
// those of an archive.
class Library {
 public:
  // Finds the kernels. InvalidArgument: a kernel has no end.
  static absl::StatusOr<Library> Create(std::string text);

  // Parses one kernel, whose text, from ".entry" to its last brace, `edit` may
  // change before. NotFound: there is no such kernel. Unimplemented: names the
  // text that the parser does not know.
  using Edit = std::function<void(const std::string& name, std::string* text)>;
  absl::StatusOr<Program> Find(absl::string_view name,
                               const Edit& edit = nullptr) const;

  std::vector<std::string> names() const;
  const std::string& text() const { return text_; }

 private:
  struct Place {
    size_t header, begin, end;  // from the module's first line, .entry, "}"
  };

  Library() = default;

  std::string text_;
  std::map<std::string, Place, std::less<>> kernels_;
};

}  // namespace castor::kernels::ptx

#endif  // CASTOR_KERNELS_PTX_PROGRAM_H_
