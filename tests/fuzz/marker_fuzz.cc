// Any text as the marker of a directory that has two good parts: refused, or it
// is the marker of these, and all can be read; and what it says survives being
// written and read again. Any text as a part's identity, too.
#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/test_files.h"
#include "run/checkpoint/checkpoint_parts.h"
#include "run/checkpoint/checkpoint_reader.h"
#include "run/checkpoint/checkpoint_reseal.h"
#include "run/checkpoint/checkpoint_writer.h"

namespace {

using namespace castor;  // NOLINT

// The seals that the corpus has (tests/fuzz/corpus/marker) are theirs.
class Parts {
 public:
  Parts() {
    for (int rank = 0; rank < 2; ++rank) {
      const std::string path =
          absl::StrCat(directory(), "/", PartName(rank, 2));
      auto writer = CheckpointWriter::Create(path);
      CASTOR_CHECK(writer.ok());
      const float values[2] = {1, 2};
      CASTOR_CHECK((*writer)
                       ->BeginPiece({"x", StatePart::kMaster, 2 * rank, 2, 4})
                       .ok());
      CASTOR_CHECK((*writer)->Append(values).ok());
      CASTOR_CHECK((*writer)->EndPiece().ok());
      CASTOR_CHECK(
          (*writer)->Commit(FormatPartIdentity({"fuzz", rank, 2})).ok());
    }
  }
  const std::string& directory() const { return directory_.path(); }

 private:
  const TemporaryDirectory directory_;
};

void Open(const Parts& parts, absl::string_view json) {
  WriteFile(absl::StrCat(parts.directory(), "/", kMarkerName),
            SealMetadata(json));
  const auto reader = CheckpointReader::Open(parts.directory());
  if (!reader.ok()) {
    CASTOR_CHECK(reader.status().code() == absl::StatusCode::kDataLoss);
    return;
  }
  CASTOR_CHECK((*reader)->tensors().size() == 1);
  CASTOR_CHECK((*reader)->VerifyAll().ok());
  float values[4];
  CASTOR_CHECK((*reader)->Read("x", StatePart::kMaster, 0, 4, values).ok());
  CASTOR_CHECK(values[1] == 2 && values[3] == 2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Parts parts;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto identity = ParsePartIdentity(text); identity.ok()) {
    const auto again = ParsePartIdentity(FormatPartIdentity(*identity));
    CASTOR_CHECK(again.ok() && *again == *identity);
  } else {
    CASTOR_CHECK(absl::IsInvalidArgument(identity.status()));
  }
  const auto marker = ParseMarker(text);
  if (!marker.ok()) {
    CASTOR_CHECK(absl::IsInvalidArgument(marker.status()));
    return 0;
  }
  const auto again = ParseMarker(FormatMarker(*marker));
  CASTOR_CHECK(again.ok() && *again == *marker);
  Open(parts, text);
  return 0;
}
