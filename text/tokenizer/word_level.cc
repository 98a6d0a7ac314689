#include "text/tokenizer/word_level.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "text/tokenizer/read_vocabulary.h"

namespace castor::text {
namespace {

class WordLevel : public Model {
 public:
  WordLevel(Vocabulary vocabulary, const std::string& unk_token)
      : Model(std::move(vocabulary)),
        unk_id_(this->vocabulary().Find(unk_token)) {}

  absl::Status Tokenize(absl::string_view piece, Allowance* /*allowance*/,
                        std::vector<int32_t>* ids) const override {
    int32_t id = vocabulary().Find(piece);
    if (id == Vocabulary::kNone) id = unk_id_;
    if (id == Vocabulary::kNone) {
      return absl::InvalidArgumentError(
          absl::StrCat("the tokenizer has no token for ",
                       QuotedForMessage(piece), " and none for the unknown"));
    }
    ids->push_back(id);
    return absl::OkStatus();
  }

 private:
  const int32_t unk_id_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Model>> ReadWordLevel(
    const JsonPart& part) {
  CASTOR_ASSIGN_OR_RETURN(const std::string unk_token,
                          part.RequiredString("unk_token"));
  CASTOR_ASSIGN_OR_RETURN(Vocabulary vocabulary, ReadVocabulary(part));
  return std::make_unique<const WordLevel>(std::move(vocabulary), unk_token);
}

}  // namespace castor::text
