#include "text/tokenizer/sentence_piece_library.h"

#include <sentencepiece_processor.h>

#include <exception>
#include <new>

namespace castor::text {
namespace {

// Returns true if `call`, which returns a status of the library, succeeds. The
// trie that the library builds throws where it cannot be built.
template <typename Call>
bool Succeeds(const Call& call, std::string* error) {
  try {
    const sentencepiece::util::Status status = call();
    if (!status.ok()) *error = status.error_message();
    return status.ok();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& exception) {
    *error = exception.what();
    return false;
  }
}

}  // namespace

struct SentencePieceLibrary::Processor {
  sentencepiece::SentencePieceProcessor library;
};

SentencePieceLibrary::SentencePieceLibrary()
    : processor_(std::make_unique<Processor>()) {}

SentencePieceLibrary::~SentencePieceLibrary() = default;

std::unique_ptr<const SentencePieceLibrary> SentencePieceLibrary::Load(
    std::string_view model, std::string* error) {
  auto loaded = std::make_unique<SentencePieceLibrary>();
  auto& library = loaded->processor_->library;
  const auto load = [&] { return library.LoadFromSerializedProto(model); };
  return Succeeds(load, error) ? std::move(loaded) : nullptr;
}

bool SentencePieceLibrary::Encode(std::string_view text,
                                  std::vector<int32_t>* ids,
                                  std::string* error) const {
  std::vector<int> found;
  const auto encode = [&] { return processor_->library.Encode(text, &found); };
  if (!Succeeds(encode, error)) return false;
  ids->insert(ids->end(), found.begin(), found.end());
  return true;
}

bool SentencePieceLibrary::Decode(const std::vector<std::string>& pieces,
                                  std::string* text, std::string* error) const {
  const auto decode = [&] { return processor_->library.Decode(pieces, text); };
  return Succeeds(decode, error);
}

}  // namespace castor::text
