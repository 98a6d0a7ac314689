// Any file as a token cache, with its checksums made right, as a hostile author
// would: refused, or all of it can be asked for, and what is read or refused is
// no more than the file has.
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/test_files.h"
#include "text/data/token_cache.h"
#include "text/data/token_cache_format.h"

namespace {

using namespace castor;  // NOLINT

// The sums of the body's blocks, of the tables, and of the footer.
void Reseal(std::string* file) {
  TokenCacheFooter footer;
  if (file->size() < sizeof(footer)) return;
  char* const end = file->data() + file->size() - sizeof(footer);
  std::memcpy(&footer, end, sizeof(footer));
  const int64_t before = end - file->data();
  if (footer.body_bytes >= 0 && footer.body_bytes <= before) {
    char* const tables = file->data() + footer.body_bytes;
    for (int64_t i = 0; i < NumBlocks(footer); ++i) {
      if (footer.body_bytes + 8 * (i + 1) > before) break;
      const int64_t size =
          std::min(kBlockBytes, footer.body_bytes - i * kBlockBytes);
      const uint64_t sum = XXH3_64bits(file->data() + i * kBlockBytes, size);
      std::memcpy(tables + 8 * i, &sum, 8);
    }
    footer.tables_checksum = XXH3_64bits(tables, end - tables);
  }
  footer.footer_checksum =
      XXH3_64bits(&footer, offsetof(TokenCacheFooter, footer_checksum));
  std::memcpy(end, &footer, sizeof(footer));
}

void CheckRefused(const absl::Status& status) {
  CASTOR_CHECK(status.ok() || absl::IsDataLoss(status));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TemporaryDirectory directory;
  const std::string path = directory.path() + "/cache";
  std::string file(reinterpret_cast<const char*>(data), size);
  Reseal(&file);
  WriteFile(path, file);
  const auto cache = TokenCache::Open(path);
  if (!cache.ok()) {
    CASTOR_CHECK(absl::IsDataLoss(cache.status()) ||
                 absl::IsFailedPrecondition(cache.status()));
    return 0;
  }
  const TokenCacheFooter& footer = (*cache)->footer();
  CASTOR_CHECK((*cache)->Verify(int64_t{1} << 30).ok());
  if (footer.kind == TokenCacheKind::kTokens) {
    std::vector<int32_t> tokens(static_cast<size_t>(footer.tokens));
    CASTOR_CHECK((*cache)->ReadTokens(0, footer.tokens, tokens.data()).ok());
    return 0;
  }
  CheckRefused((*cache)->CountTokens(0, (*cache)->footer().lines, 3).status());
  std::vector<int32_t> tokens(64), labels(64);
  for (int64_t line = 0; line < std::min<int64_t>(footer.lines, 100); ++line) {
    const auto read =
        (*cache)->ReadLine(line, 64, tokens.data(), labels.data());
    CheckRefused(read.status());
    CASTOR_CHECK(!read.ok() || (*read >= 1 && *read <= 64));
  }
  return 0;
}
