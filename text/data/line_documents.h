// Finds where the documents of one line of tokens begin, from its keys.
//
//   position_ids  each document counts its tokens from 0
//   document_ids  tokens of one document have the same number
//   seq_lengths   the documents' lengths, in their order
#ifndef CASTOR_TEXT_DATA_LINE_DOCUMENTS_H_
#define CASTOR_TEXT_DATA_LINE_DOCUMENTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor {

enum class DocumentKey : uint8_t { kPositions, kNumbers, kLengths };
inline constexpr absl::string_view kDocumentKeys[] = {
    "position_ids", "document_ids", "seq_lengths"};

// Returns the places of the first tokens of the documents in a line of `tokens`
// tokens, at least one, from the `values` of its key `key`; the first is 0.
// InvalidArgument, after the key: values that are not as above, including a
// document that goes on after another one has begun.
absl::StatusOr<std::vector<int64_t>> DocumentStarts(
    DocumentKey key, const std::vector<int64_t>& values, int64_t tokens);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_LINE_DOCUMENTS_H_
