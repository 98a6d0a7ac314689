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

// Immutable; any number of threads. std::bad_alloc leaves where there is no
// memory; whatever else goes wrong is said in *error.
class SentencePieceLibrary {
 public:
  // `model` must be what ReadSentencePieceFile made of a file
  // (sentence_piece_file.h): the library trusts some of what it reads. Null:
  // it is no model, as *error says.
  static std::unique_ptr<const SentencePieceLibrary> Load(
      std::string_view model, std::string* error);

  SentencePieceLibrary();
  ~SentencePieceLibrary();

  // Appends the ids of `text`, valid UTF-8. False: *error says why not.
  bool Encode(std::string_view text, std::vector<int32_t>* ids,
              std::string* error) const;
  // The text of `pieces`, which may not be UTF-8. False: *error says why not.
  bool Decode(const std::vector<std::string>& pieces, std::string* text,
              std::string* error) const;

 private:
  struct Processor;
  std::unique_ptr<Processor> processor_;
};

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_SENTENCE_PIECE_LIBRARY_H_
