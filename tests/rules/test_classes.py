"""No class has more public methods than the rule: who uses it must be able to hold it in mind."""

from classes import public_methods
from test_layout import ROOT, cpp_files

PUBLIC_METHODS = 12
# Classes above the rule when the check came in, with the number that they may not pass. Only shrinks.
RATCHET = ROOT / "tests/rules/wide_classes.txt"


def limits():
    rows = [line.split() for line in RATCHET.read_text().splitlines() if line.strip() and not line.startswith("#")]
    return {(path, name): int(methods) for path, name, methods in rows}


def counts():
    """(header, class) -> number of public methods."""
    # The vector types of .inl.h files are sets of operations, not objects with a state.
    headers = [name for name in cpp_files() if name.endswith(".h") and not name.endswith(".inl.h")]
    return {(file, name): len(methods) for file in headers
            for name, methods in public_methods((ROOT / file).read_text()).items()}


def test_classes_stay_narrow():
    allowed, found = limits(), counts()
    assert len(found) > 200 and sum(found.values()) > 500, "found hardly any: does the parser still understand us?"
    wrong = [f"{file}: {name} has {methods} public methods, {max(PUBLIC_METHODS, allowed.get((file, name), 0))} allowed"
             for (file, name), methods in found.items()
             if methods > max(PUBLIC_METHODS, allowed.get((file, name), 0))]
    assert not wrong, "\n".join(wrong)


def test_ratchet_is_tight():
    """An entry that is no longer needed, or looser than needed, must be tightened."""
    found = counts()
    loose = [f"{file} {name} has {found.get((file, name), 0)} public methods now"
             for (file, name), methods in limits().items()
             if methods <= PUBLIC_METHODS or methods != found.get((file, name), 0)]
    assert not loose, f"run tighten.py:\n" + "\n".join(loose)


HEADER = """\
#define BRACE {
namespace folio { namespace inner {
class Forward;
enum class Kind : int { kOne, kTwo };
struct Plain { int a = 0; std::function<void(int)> call; int b{f(1)};
  void (*pointer)(int) = nullptr; };
template <typename T, int N = (3)>
class ABSL_MUST_USE_RESULT Cache final : public Base<void(int)>, private Other {
  int hidden();  // private by default
 public:
  explicit Cache(int x) : a_{x}, b_(f(x)) { g(); }
  Cache(const Cache&) = delete;
  Cache() noexcept = default;
  virtual ~Cache();
  bool operator==(const Cache& o) const { return a_ == o.a_; }
  static absl::StatusOr<std::unique_ptr<Cache>> Create(std::function<int(int)> f = {}, int n = Max(1, 2));
  virtual std::pair<int, int> Insert(const std::string& key) = 0;
  int Insert(int key) override;
  [[nodiscard]] const int& size() const ABSL_LOCKS_EXCLUDED(mutex_) { if (a_) { return b_; } return a_; }
  template <typename F>
  void Each(F&& f) const {
    for (int i = 0; i < a_; ++i) f([&] { return i; });
  }
  auto later() -> decltype(f(1));
  void gone() = delete;
  using Callback = int (*)(int);
  friend int Friend(const Cache&);
  struct Handle {
    int get() const { return 1; }
   private:
    void secret();
  };
  class Iterator { public: bool Next(); };
  enum { kA = int(1) };
  static_assert(sizeof(int) == 4);
  int data = Compute(3);

 protected:
  void kept();

 private:
  void other() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Mutex mutex_;
  int a_ ABSL_GUARDED_BY(mutex_) = 0, b_ = 0;

 public:
  void again();
};
inline int Free(int a) { return a; }
struct Value { constexpr int value() const { return 1; } };
}}  // namespace
"""


def test_finds_public_methods():
    assert public_methods(HEADER) == {
        "Plain": [],
        "Cache": ["Create", "Insert", "Insert", "size", "Each", "later", "again"],
        "Cache::Handle": ["get"],
        "Cache::Iterator": ["Next"],
        "Value": ["value"],
    }
