#include "kernels/ptx/parser.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "kernels/ptx/operations.h"
#include "kernels/ptx/program.h"

namespace castor::kernels::ptx {
namespace {

absl::Status Unknown(absl::string_view what, absl::string_view text) {
  return absl::UnimplementedError(
      absl::StrCat("PTX: ", what, " is not known here: ", text));
}

absl::string_view Strip(absl::string_view text) {
  return absl::StripAsciiWhitespace(text);
}

// "a, {b, c}, [d+4]" at its commas outside of braces.
std::vector<absl::string_view> SplitOperands(absl::string_view text) {
  std::vector<absl::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      const absl::string_view part = Strip(text.substr(begin, i - begin));
      if (!part.empty()) parts.push_back(part);
      begin = i + 1;
    } else if (text[i] == '{' || text[i] == '[') {
      ++depth;
    } else if (text[i] == '}' || text[i] == ']') {
      --depth;
    }
  }
  return parts;
}

// Bytes of one value of a type such as ".b32"; 0: it is not known.
int32_t BytesOf(absl::string_view type) {
  if (type == ".pred") return 1;
  static constexpr std::array<std::pair<absl::string_view, int32_t>, 13>
      kTypes = {{{".b8", 1},
                 {".u8", 1},
                 {".b16", 2},
                 {".u16", 2},
                 {".s16", 2},
                 {".b32", 4},
                 {".u32", 4},
                 {".s32", 4},
                 {".f32", 4},
                 {".b64", 8},
                 {".u64", 8},
                 {".s64", 8},
                 {".f64", 8}}};
  for (const auto& [name, bytes] : kTypes) {
    if (type == name) return bytes;
  }
  return 0;
}

int64_t Align(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

class KernelParser {
 public:
  explicit KernelParser(Program* program) : program_(*program) {}

  // `header` is the module's text before the kernel, `kernel` from ".entry" to
  // behind the last brace; both are parts of program.text.
  absl::Status Parse(absl::string_view header, absl::string_view kernel) {
    CASTOR_RETURN_IF_ERROR(ParseHeader(header));
    const size_t open = kernel.find('(');
    const size_t close = kernel.find(')');
    const size_t body = kernel.find('{');
    program_.name =
        std::string(Strip(kernel.substr(6, std::min(open, body) - 6)));
    if (open < body) {
      CASTOR_RETURN_IF_ERROR(
          ParseParameters(kernel.substr(open + 1, close - open - 1)));
    }
    const size_t behind = open < body ? close + 1 : 6 + program_.name.size();
    for (absl::string_view line :
         absl::StrSplit(kernel.substr(behind, body - behind), '\n')) {
      line = Strip(line);
      if (absl::ConsumePrefix(&line, ".maxntid ")) {
        const std::vector<absl::string_view> sizes = SplitOperands(line);
        program_.most_threads = 1;
        for (absl::string_view size : sizes) {
          int64_t value = 0;
          if (!absl::SimpleAtoi(size, &value)) {
            return Unknown("a number of threads", line);
          }
          program_.most_threads *= value;
        }
      } else if (!line.empty() && line != program_.name) {
        return Unknown("a directive", line);
      }
    }
    CASTOR_RETURN_IF_ERROR(ParseBody(kernel.substr(body)));
    return Link();
  }

 private:
  // Declarations of the module that kernels name.
  absl::Status ParseHeader(absl::string_view header) {
    for (absl::string_view line : absl::StrSplit(header, '\n')) {
      line = Strip(line);
      if (!absl::ConsumePrefix(&line, ".extern .shared ")) continue;
      // .align 16 .b8 NAME[];
      const std::vector<absl::string_view> words =
          absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (words.size() != 4 || !absl::EndsWith(words[3], "[];")) {
        return Unknown("a declaration", line);
      }
      dynamic_shared_.emplace_back(words[3].substr(0, words[3].size() - 3));
    }
    return absl::OkStatus();
  }

  absl::Status ParseParameters(absl::string_view text) {
    for (absl::string_view part : SplitOperands(text)) {
      // .param .u64 NAME; .param .align 8 .b8 NAME[32]
      std::vector<absl::string_view> words =
          absl::StrSplit(part, ' ', absl::SkipEmpty());
      int64_t align = 0;
      if (words.size() == 5 && words[1] == ".align") {
        if (!absl::SimpleAtoi(words[2], &align)) {
          return Unknown("an alignment", part);
        }
        words.erase(words.begin() + 1, words.begin() + 3);
      }
      if (words.size() != 3 || words[0] != ".param" || BytesOf(words[1]) == 0) {
        return Unknown("a parameter", part);
      }
      int64_t bytes = BytesOf(words[1]);
      align = std::max(align, bytes);
      absl::string_view name = words[2];
      if (const size_t bracket = name.find('[');
          bracket != absl::string_view::npos) {
        int64_t count = 0;
        if (!absl::SimpleAtoi(
                name.substr(bracket + 1, name.size() - bracket - 2), &count)) {
          return Unknown("a size", part);
        }
        bytes *= count;
        name = name.substr(0, bracket);
      }
      const int64_t at = Align(program_.parameter_bytes, align);
      program_.parameters.push_back({at, bytes});
      symbols_[name] = static_cast<uint64_t>(at);
      program_.parameter_bytes = at + bytes;
    }
    return absl::OkStatus();
  }

  absl::Status ParseBody(absl::string_view text) {
    size_t at = 0;
    while (true) {
      while (at < text.size() && std::isspace(text[at])) ++at;
      if (at == text.size()) return absl::OkStatus();
      if (text[at] == '{') {
        scopes_.emplace_back();
        ++at;
        continue;
      }
      if (text[at] == '}') {
        scopes_.pop_back();
        ++at;
        continue;
      }
      const absl::string_view rest = text.substr(at);
      const size_t line = rest.find('\n');
      if (absl::StartsWith(rest, ".loc ") || absl::StartsWith(rest, ".loc\t") ||
          absl::StartsWith(rest, "//")) {
        at = line == absl::string_view::npos ? text.size() : at + line;
        continue;
      }
      // A label: a word and a colon.
      size_t word = 0;
      while (word < rest.size() && (std::isalnum(rest[word]) ||
                                    rest[word] == '_' || rest[word] == '$')) {
        ++word;
      }
      if (word > 0 && word < rest.size() && rest[word] == ':') {
        labels_[rest.substr(0, word)] =
            static_cast<int32_t>(program_.code.size());
        at += word + 1;
        continue;
      }
      const size_t end = rest.find(';');
      if (end == absl::string_view::npos) {
        return Unknown("a statement without an end", rest.substr(0, 80));
      }
      const absl::string_view statement = Strip(rest.substr(0, end));
      at += end + 1;
      if (statement.empty()) continue;
      if (statement[0] == '.') {
        CASTOR_RETURN_IF_ERROR(ParseDirective(statement));
      } else {
        CASTOR_RETURN_IF_ERROR(ParseInstruction(statement));
      }
    }
  }

  absl::Status ParseDirective(absl::string_view text) {
    if (absl::StartsWith(text, ".pragma")) return absl::OkStatus();
    std::vector<absl::string_view> words =
        absl::StrSplit(text, absl::MaxSplits(' ', 2), absl::SkipEmpty());
    if (words.size() != 3 || words[0] != ".reg" || BytesOf(words[1]) == 0) {
      return Unknown("a directive", text);
    }
    // .reg .b32 %r<21>; .reg .b32 %temp;
    for (absl::string_view name : SplitOperands(words[2])) {
      int64_t count = -1;
      if (const size_t angle = name.find('<');
          angle != absl::string_view::npos) {
        if (!absl::SimpleAtoi(name.substr(angle + 1, name.size() - angle - 2),
                              &count)) {
          return Unknown("a number of registers", text);
        }
        name = name.substr(0, angle);
      }
      scopes_.back()[name] = {
          Reserve(BytesOf(words[1]), std::max<int64_t>(count, 1)),
          BytesOf(words[1]), count};
    }
    return absl::OkStatus();
  }

  absl::Status ParseInstruction(absl::string_view text) {
    Instruction instruction;
    instruction.text = text;
    absl::string_view rest = text;
    if (rest[0] == '@') {
      const size_t space = rest.find(' ');
      absl::string_view guard = rest.substr(1, space - 1);
      instruction.guard_is_negated = absl::ConsumePrefix(&guard, "!");
      Operand operand;
      CASTOR_RETURN_IF_ERROR(ParseOperand(guard, 1, text, &operand));
      instruction.guard = operand.place;
      rest = Strip(rest.substr(space));
    }
    const size_t space = rest.find_first_of(" \t\n");
    const absl::string_view name = rest.substr(0, space);
    rest = space == absl::string_view::npos ? "" : Strip(rest.substr(space));
    const Operation* operation = FindOperation(name);
    if (operation == nullptr) {
      return Unknown(absl::StrCat("the instruction ", name), text);
    }
    instruction.execute = operation->execute;
    instruction.flow = operation->flow;
    std::vector<Operand> operands;
    if (operation->form == Form::kBranch) {
      branches_.push_back({program_.code.size(), rest});
    } else {
      CASTOR_RETURN_IF_ERROR(
          ParseOperands(*operation, rest, text, &instruction, &operands));
    }
    program_.code.push_back(instruction);
    program_.operands.push_back(std::move(operands));
    return absl::OkStatus();
  }

  absl::Status ParseOperands(const Operation& operation, absl::string_view list,
                             absl::string_view text, Instruction* instruction,
                             std::vector<Operand>* operands) {
    const bool any_width =
        operation.form == Form::kLoad || operation.form == Form::kStore;
    std::vector<int> widths = operation.widths;
    if (operation.form == Form::kMove && absl::StrContains(list, '{')) {
      const int all = widths[0];
      widths = list[0] == '{' ? std::vector<int>{all / 2, all / 2, all}
                              : std::vector<int>{all, all / 2, all / 2};
    }
    const auto add = [&](absl::string_view name) -> absl::Status {
      if (operands->size() >= widths.size()) {
        return Unknown("an operand", text);
      }
      Operand operand;
      if (name != "_") {
        const int32_t wanted = widths[operands->size()];
        CASTOR_RETURN_IF_ERROR(ParseOperand(name, wanted, text, &operand));
        if (any_width ? operand.bytes < wanted : operand.bytes != wanted) {
          return Unknown(
              absl::StrCat("an operand of ", operand.bytes,
                           " bytes in place of ", wanted, ", ", name),
              text);
        }
      }
      operands->push_back(operand);
      return absl::OkStatus();
    };
    for (absl::string_view part : SplitOperands(list)) {
      if (part[0] == '{') {
        for (absl::string_view each :
             SplitOperands(part.substr(1, part.size() - 2))) {
          CASTOR_RETURN_IF_ERROR(add(each));
        }
      } else if (part[0] == '[') {
        if (operands->size() >= widths.size()) {
          return Unknown("an address", text);
        }
        Operand operand;
        int64_t offset = 0;
        CASTOR_RETURN_IF_ERROR(ParseAddress(part.substr(1, part.size() - 2),
                                            widths[operands->size()], text,
                                            &operand, &offset));
        if (offset != 0) {
          // Only the first of a copy's two addresses may have one.
          if (operation.form == Form::kCopy && !operands->empty()) {
            return Unknown("an offset", text);
          }
          instruction->offset = offset;
        }
        operands->push_back(operand);
      } else if (const size_t bar = part.find('|');
                 bar != absl::string_view::npos) {
        CASTOR_RETURN_IF_ERROR(add(part.substr(0, bar)));
        CASTOR_RETURN_IF_ERROR(add(part.substr(bar + 1)));
      } else {
        CASTOR_RETURN_IF_ERROR(add(part));
      }
    }
    if (operands->size() != widths.size()) {
      return Unknown(absl::StrCat(operands->size(), " operands in place of ",
                                  widths.size()),
                     text);
    }
    // The mask of lanes comes last: shfl, bar.warp.sync.
    if (operation.flow == Flow::kTogether && !operands->empty() &&
        (operation.form == Form::kShuffle || operands->size() == 1)) {
      instruction->members = operands->back().place;
    }
    return absl::OkStatus();
  }

  // "%rd1+8", "%r5", "NAME+16": a register (or a constant), and bytes.
  absl::Status ParseAddress(absl::string_view address, int32_t bytes,
                            absl::string_view text, Operand* operand,
                            int64_t* offset) {
    const size_t plus = address.find('+');
    if (plus != absl::string_view::npos) {
      if (!absl::SimpleAtoi(address.substr(plus + 1), offset)) {
        return Unknown("an address", text);
      }
      address = address.substr(0, plus);
    }
    CASTOR_RETURN_IF_ERROR(ParseOperand(address, bytes, text, operand));
    if (operand->bytes != bytes) return Unknown("an address", text);
    return absl::OkStatus();
  }

  bool IsRegister(absl::string_view name) const {
    return std::any_of(scopes_.begin(), scopes_.end(), [&](const auto& scope) {
      return scope.count(name) > 0;
    });
  }

  // A register, or a constant of `bytes`.
  absl::Status ParseOperand(absl::string_view name, int32_t bytes,
                            absl::string_view text, Operand* operand) {
    // A few registers' names do not begin with "%".
    if (name[0] == '%' || IsRegister(name)) {
      return ParseRegister(name, text, operand);
    }
    uint64_t value = 0;
    const auto symbol = symbols_.find(name);
    if (symbol != symbols_.end()) {
      value = symbol->second;
    } else if (std::find(dynamic_shared_.begin(), dynamic_shared_.end(),
                         name) != dynamic_shared_.end()) {
      value = 0;  // Nothing else is in shared memory: .shared is not known.
    } else if (!ParseNumber(name, &value)) {
      return Unknown(absl::StrCat("the operand ", name), text);
    }
    const std::pair<int32_t, uint64_t> key = {bytes, value};
    auto [constant, is_new] = constants_.try_emplace(key, 0);
    if (is_new) {
      constant->second = Reserve(bytes, 1);
      program_.constants.push_back({constant->second, bytes, value});
    }
    *operand = {constant->second, bytes};
    return absl::OkStatus();
  }

  // -12, 0x1f, 0f3F800000 (the bits of a float), 0d3FF0000000000000.
  static bool ParseNumber(absl::string_view text, uint64_t* value) {
    const auto digits = [&](absl::string_view rest, int base) {
      const auto [end, error] =
          std::from_chars(rest.data(), rest.data() + rest.size(), *value, base);
      return error == std::errc() && end == rest.data() + rest.size();
    };
    if (absl::StartsWith(text, "0f") || absl::StartsWith(text, "0F") ||
        absl::StartsWith(text, "0d") || absl::StartsWith(text, "0D") ||
        absl::StartsWith(text, "0x") || absl::StartsWith(text, "0X")) {
      return digits(text.substr(2), 16);
    }
    const bool negative = absl::ConsumePrefix(&text, "-");
    if (!digits(text, 10)) return false;
    if (negative) *value = -*value;
    return true;
  }

  absl::Status ParseRegister(absl::string_view name, absl::string_view text,
                             Operand* operand) {
    const std::pair<absl::string_view, int32_t*> special[] = {
        {"%tid.x", &program_.thread},
        {"%ctaid.x", &program_.block},
        {"%ntid.x", &program_.threads},
        {"%nctaid.x", &program_.blocks},
        {"%laneid", &program_.lane}};
    for (const auto& [word, place] : special) {
      if (name != word) continue;
      if (*place < 0) *place = Reserve(4, 1);
      *operand = {*place, 4};
      return absl::OkStatus();
    }
    // A name of its own, or one of many: letters and a number.
    size_t digits = name.size();
    while (digits > 0 && std::isdigit(name[digits - 1])) --digits;
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto one = scope->find(name);
          one != scope->end() && one->second.count < 0) {
        *operand = {one->second.place, one->second.bytes};
        return absl::OkStatus();
      }
      const auto many = scope->find(name.substr(0, digits));
      int64_t number = 0;
      if (many != scope->end() &&
          absl::SimpleAtoi(name.substr(digits), &number) &&
          number < many->second.count) {
        const Registers& registers = many->second;
        *operand = {static_cast<int32_t>(registers.place +
                                         number * Stride(registers.bytes)),
                    registers.bytes};
        return absl::OkStatus();
      }
    }
    return Unknown(absl::StrCat("the register ", name), text);
  }

  // Branches' targets, and the places of operands, which move no more.
  absl::Status Link() {
    for (const auto& [at, label] : branches_) {
      const auto target = labels_.find(label);
      if (target == labels_.end()) {
        return Unknown(absl::StrCat("the label ", label),
                       program_.code[at].text);
      }
      program_.code[at].target = target->second;
    }
    for (size_t i = 0; i < program_.code.size(); ++i) {
      program_.code[i].operands = program_.operands[i].data();
      program_.code[i].num_operands =
          static_cast<int32_t>(program_.operands[i].size());
    }
    return absl::OkStatus();
  }

  // Bytes of a register of all lanes.
  static int64_t Stride(int32_t bytes) {
    return bytes == 1 ? static_cast<int64_t>(sizeof(LaneMask)) : bytes * kLanes;
  }
  int32_t Reserve(int32_t bytes, int64_t count) {
    const int64_t at = Align(program_.register_bytes, 8);
    program_.register_bytes = at + count * Stride(bytes);
    return static_cast<int32_t>(at);
  }

  struct Registers {
    int32_t place, bytes;
    int64_t count;  // -1: a name of its own
  };

  Program& program_;
  std::vector<std::map<absl::string_view, Registers>> scopes_;
  std::map<absl::string_view, uint64_t> symbols_;  // addresses
  std::vector<absl::string_view> dynamic_shared_;
  std::map<absl::string_view, int32_t> labels_;
  std::vector<std::pair<size_t, absl::string_view>> branches_;
  std::map<std::pair<int32_t, uint64_t>, int32_t> constants_;
};

}  // namespace

absl::Status ParseKernel(absl::string_view header, Program* program) {
  return KernelParser(program).Parse(header, program->text);
}

}  // namespace castor::kernels::ptx
