// The SentencePiece library, behind a face that knows nothing of Abseil: its
// header gives the name absl::string_view a meaning that Debian's Abseil does
// not give it, so that no file can include both.
#ifndef CASTOR_TEXT_TOKENIZER_SENTENCE_PIECE_LIBRARY_H_
#define CASTOR_TEXT_TOKENIZER_SENTENCE_PIECE_LIBRARY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace castor::text {

// Immutable; any number of threads. Throws std::bad_alloc where there is no
// memory; *error says what else goes wrong.
class SentencePieceLibrary {
 public:
  // Loads a model. `model` must come from ReadSentencePieceFile
  // (sentence_piece_file.h): the library trusts some of what it reads. Returns
  // null if it is no model, as *error says.
  static std::unique_ptr<const SentencePieceLibrary> Load(
      std::string_view model, std::string* error);

  SentencePieceLibrary();
  ~SentencePieceLibrary();

  // Appends the ids of `text`, valid UTF-8. Returns false if it cannot; *error
  // says why.
  bool Encode(std::string_view text, std::vector<int32_t>* ids,
              std::string* error) const;
  // Decodes `pieces`, to a text that may not be UTF-8. Returns false if it
  // cannot; *error says why.
  bool Decode(const std::vector<std::string>& pieces, std::string* text,
              std::string* error) const;

 private:
  struct Processor;
  std::unique_ptr<Processor> processor_;
};

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_SENTENCE_PIECE_LIBRARY_H_
