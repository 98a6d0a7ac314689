// Holds the values of one rendering, and bounds its time and memory. A template
// is a program of somebody else's: whatever it does, it ends with an error
// after so many steps, and before it has made so many bytes.
//
// A *step* is some tens of nanoseconds: a node of the tree that is evaluated,
// an item that is moved, kBytesPerStep bytes that are looked at. Both bounds
// grow with the caller's input, and with nothing else. Nothing is freed before
// the heap is, so that values need neither counts nor a collector, and a chain
// of them, however long, is freed without recursion.
//
// Threads: one at a time; a heap that no longer changes may be read by any.
#ifndef CASTOR_TEXT_CHAT_JINJA_HEAP_H_
#define CASTOR_TEXT_CHAT_JINJA_HEAP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json_reader.h"
#include "nlohmann/json.hpp"
#include "text/chat/jinja/callable.h"
#include "text/chat/jinja/value.h"

namespace castor::text::jinja {

class Heap {
 public:
  static constexpr int64_t kMinBytes = int64_t{24} << 20;
  static constexpr int64_t kBytesPerByte = 64;
  static constexpr int64_t kMinSteps = 4'000'000;
  static constexpr int64_t kStepsPerByte = 64;
  static constexpr int64_t kBytesPerStep = 16;
  // Values may be nested so deep where a function goes down into them.
  static constexpr int kMaxValueDepth = 200;

  explicit Heap(int64_t given_bytes = 0)
      : given_bytes_(given_bytes),
        bytes_left_(kMinBytes + kBytesPerByte * given_bytes),
        steps_left_(kMinSteps + kStepsPerByte * given_bytes) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // InvalidArgument: `depth` is beyond kMaxValueDepth.
  static absl::Status CheckDepth(int depth);

  // Takes steps from those that are left. ResourceExhausted: there are fewer.
  absl::Status Take(int64_t steps) {
    steps_left_ -= steps;
    return steps_left_ < 0 ? TooManySteps() : absl::OkStatus();
  }
  absl::Status TakeText(int64_t bytes) {
    return Take(1 + bytes / kBytesPerStep);
  }
  absl::Status TakeBytes(int64_t bytes) {
    if (bytes > bytes_left_) return TooManyBytes();
    bytes_left_ -= bytes;
    return absl::OkStatus();
  }
  void GiveBack(int64_t bytes) { bytes_left_ += bytes; }
  int64_t bytes_left() const { return bytes_left_; }
  absl::Status TooManyBytes() const;
  absl::Status TooManySteps() const;

  // Each function below gives ResourceExhausted where a bound is reached. The
  // `bytes` of a string are valid UTF-8.
  absl::StatusOr<Value> NewString(std::string bytes, bool is_markup = false);
  absl::StatusOr<Value> NewString(absl::string_view bytes) {
    return NewString(std::string(bytes));
  }
  absl::StatusOr<Value> NewString(const char* bytes) {
    return NewString(std::string(bytes));
  }
  // Makes a string of one code point; each of ASCII is made only once.
  absl::StatusOr<Value> NewCharacter(absl::string_view bytes);
  absl::StatusOr<Value> NewSequence(SequenceType type,
                                    std::vector<Value> items);
  absl::StatusOr<Value> NewList(std::vector<Value> items) {
    return NewSequence(SequenceType::kList, std::move(items));
  }
  absl::StatusOr<Value> NewTuple(std::vector<Value> items) {
    return NewSequence(SequenceType::kTuple, std::move(items));
  }
  absl::StatusOr<Value> NewDict(std::vector<std::pair<Value, Value>> items);
  absl::StatusOr<Value> NewNamespace(
      std::vector<std::pair<Value, Value>> items);
  absl::StatusOr<Value> NewFunction(Function function);
  absl::StatusOr<Value> NewMissing(Missing missing);
  absl::StatusOr<Loop*> NewLoop(Loop loop);
  // Makes a value of JSON. InvalidArgument: a number does not fit 64 bits, or
  // the nesting is beyond the bound.
  absl::StatusOr<Value> NewFrom(const OrderedJson& json, int depth = 0);

 private:
  const int64_t given_bytes_;
  int64_t bytes_left_;
  int64_t steps_left_;
  std::array<const String*, 128> ascii_ = {};
  // A deque's items stay where they are.
  std::deque<String> strings_;
  std::deque<Sequence> sequences_;
  std::deque<Dict> dicts_;
  std::deque<Namespace> namespaces_;
  std::deque<Function> functions_;
  std::deque<Missing> missing_;
  std::deque<Loop> loops_;
};

// A text in the making that never becomes larger than its heap allows.
class TextBuilder {
 public:
  explicit TextBuilder(Heap* heap) : heap_(*heap) {}

  void Append(absl::string_view text) {
    if (static_cast<int64_t>(bytes_.size() + text.size()) >
        heap_.bytes_left()) {
      is_over_ = true;
    } else {
      bytes_.append(text.data(), text.size());
    }
  }
  void Append(char byte) { Append(absl::string_view(&byte, 1)); }
  void AppendTimes(absl::string_view text, int64_t count) {
    for (int64_t i = 0; i < count && !is_over_; ++i) Append(text);
  }
  bool is_over() const { return is_over_; }

  // Returns the text. ResourceExhausted: it became too large.
  absl::StatusOr<std::string> Bytes() &&;
  absl::StatusOr<Value> Make(bool is_markup = false) &&;

 private:
  Heap& heap_;
  std::string bytes_;
  bool is_over_ = false;
};

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_HEAP_H_
