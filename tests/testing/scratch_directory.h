// ScratchDirectory is a new empty directory under the system's temporary one. The destructor
// removes it with its contents.
#ifndef FOLIO_TESTS_TESTING_SCRATCH_DIRECTORY_H_
#define FOLIO_TESTS_TESTING_SCRATCH_DIRECTORY_H_

#include <string>

namespace folio::testing {

class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Makes or replaces a file. Ends the process if it cannot.
void WriteFile(const std::string& path, const std::string& contents);
std::string ReadFile(const std::string& path);

}  // namespace folio::testing

#endif  // FOLIO_TESTS_TESTING_SCRATCH_DIRECTORY_H_
