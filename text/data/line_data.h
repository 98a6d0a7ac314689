// The data set of a file of lines: sample i is line i, cut to its first T
// tokens or padded at the end. The target of token t is label t + 1, as in
// transformers' causal models; the last of the T, or of the line, has none, nor
// has padding. In records for models that see whole sequences the target of
// token t is label t, and the padding of a sample is a document of its own.
#ifndef CASTOR_TEXT_DATA_LINE_DATA_H_
#define CASTOR_TEXT_DATA_LINE_DATA_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "runtime/data/data_set.h"
#include "text/data/token_cache.h"

namespace castor {

// Returns a file of samples whose size is in lines: `cache`, of lines, whose
// source is at `path`. Its tokens are not checked against the vocabulary again:
// they were when it was opened (cached_tokens.h). `labelled`: its lines are
// codes and labels of labelled records (labelled_record.h), of
// DataPart::vocabulary.
DataFile LineDataFile(std::shared_ptr<const TokenCache> cache,
                      const std::string& path, bool labelled = false);

// Writes a sample of T = `length` tokens, tokens [T] and targets [T], of a
// record's first tokens, at most T, and as many labels.
void FillFromRecord(absl::Span<const int32_t> ids,
                    absl::Span<const int32_t> labels, int64_t length,
                    int32_t* tokens, int32_t* targets);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_LINE_DATA_H_
