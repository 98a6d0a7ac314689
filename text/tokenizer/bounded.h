// A bounded part of a tokenizer knows its place in the file: its output is held
// to the text's allowance, and each error names the part.
#ifndef CASTOR_TEXT_TOKENIZER_BOUNDED_H_
#define CASTOR_TEXT_TOKENIZER_BOUNDED_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/annotate.h"
#include "text/tokenizer/allowance.h"
#include "text/tokenizer/json_part.h"

namespace castor::text {

// `Part` is Normalizer, PreTokenizer or Decoder, and `Value` the type that its
// Apply rewrites.
template <typename Part, typename Value>
class Bounded : public Part {
 public:
  Bounded(std::unique_ptr<const Part> part, std::string place)
      : part_(std::move(part)), place_(std::move(place)) {}

  absl::Status Apply(Value* value) const override {
    absl::Status status = part_->Apply(value);
    if (status.ok()) status = value->allowance->TakeText(value->size_bytes());
    return Annotate(place_, status);
  }

 private:
  const std::unique_ptr<const Part> part_;
  const std::string place_;
};

// Gives `part`, which was read from `json`, its bounds.
template <typename Part, typename Value>
absl::StatusOr<std::unique_ptr<const Part>> WithBounds(
    const JsonPart& json, absl::StatusOr<std::unique_ptr<const Part>> part) {
  if (!part.ok()) return part;
  return std::make_unique<const Bounded<Part, Value>>(*std::move(part),
                                                      json.path());
}

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_BOUNDED_H_
