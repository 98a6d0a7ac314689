// The token cache of a data file: it is opened where there is one that was made
// of the file's present content, and made where there is none.
#ifndef CASTOR_TEXT_DATA_CACHED_TOKENS_H_
#define CASTOR_TEXT_DATA_CACHED_TOKENS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/data/token_cache.h"
#include "text/data/tokenize.h"

namespace castor {

struct CachedTokensRequest {
  std::string path;          // the data file
  TokenizeOptions tokenize;  // `progress` is not used
  // Where the cache is kept; "": beside the data file. Made where it is
  // missing.
  std::string directory;
  // How long to wait for another process that makes the cache.
  double timeout_seconds = 3600;
  // Takes lines for the user, which say that work is done, and why it is done
  // again.
  std::function<void(absl::string_view line)> say;
};

// Returns DIRECTORY/NAME.castor-tokens-KEY, where KEY is 16 hexadecimal digits
// of everything but the data file that the tokens follow from. Where another
// user has put a file there, the cache is kept at that name and "-u" and this
// user's number.
std::string CachePath(const CachedTokensRequest& request);

// Opens the request's cache. One that is damaged, or of a file that has changed
// since, is made anew. A file of up to 64 MiB is read again to see whether it
// has changed; for a larger one size and time of writing tell, where they can.
//
// Its name can be foreseen, so a file of that name is believed only if it is
// the user's own or root's, and no other user may write to it.
//
// Processes and threads that want the same cache at once wait until the one of
// them that was first has made it. Where the file system has no locks, or the
// lock is another user's, each makes it, and the last one's takes the name. A
// process that is killed leaves a temporary file, which the next one that makes
// the cache removes.
//
// InvalidArgument: as Tokenize, or the cache's tokens are outside the
// vocabulary, or the entry with its name or its lock's is no file. NotFound: no
// such data file. FailedPrecondition: another process has made it for too long.
// Where the cache cannot be written, the message names data.cache.
absl::StatusOr<std::shared_ptr<const TokenCache>> OpenCachedTokens(
    const CachedTokensRequest& request);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_CACHED_TOKENS_H_
