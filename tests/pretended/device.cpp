// A pretended accelerator for tests. Its memory is its own (plain memory that no CPU tensor may
// enter), every operation is computed by the CPU's kernel, and tensors of two devices that meet
// raise the error a GPU raises. It has a generator of its own stream, and an allocator that hands
// out blocks of 512 bytes from segments of 2 MiB, keeps a workspace for matmuls, and can run out.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/extension.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace {

constexpr auto KIND = c10::DeviceType::PrivateUse1;
const c10::Device HERE(KIND, 0);

// One device, one stream, and nothing that is ever under way.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return KIND; }
  c10::Device exchangeDevice(c10::Device) const override { return HERE; }
  c10::Device getDevice() const override { return HERE; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override {
    return c10::Stream(c10::Stream::DEFAULT, HERE);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void synchronizeDevice(const c10::DeviceIndex) const override {}
  void synchronizeStream(const c10::Stream&) const override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// Memory -----------------------------------------------------------------------------------------

constexpr int64_t BLOCK = 512, SEGMENT = 2 << 20, NO_LIMIT = INT64_MAX;
std::atomic<int64_t> allocated{0}, peak{0}, reserved{0}, limit{NO_LIMIT};

struct Block {
  void* bytes;
  int64_t size;
};

int64_t rounded(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

void give_back(void* context) {
  auto* block = static_cast<Block*>(context);
  allocated -= block->size;
  std::free(block->bytes);
  delete block;
}

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t n) override {
    if (n == 0) return {nullptr, nullptr, &give_back, HERE};
    const int64_t size = rounded(n, BLOCK), now = allocated + size;
    if (now > limit)
      TORCH_CHECK_WITH(OutOfMemoryError, false, "pretend out of memory. Tried to allocate ", size,
                       " bytes; ", allocated.load(), " of ", limit.load(), " are in use.");
    void* bytes = nullptr;
    if (posix_memalign(&bytes, 64, size)) throw std::bad_alloc();
    allocated = now;
    if (now > peak) peak = now;
    if (now > reserved) reserved = rounded(now, SEGMENT);
    return {bytes, new Block{bytes, size}, &give_back, HERE};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t n) const override {
    std::memcpy(to, from, n);
  }
};
Allocator memory;
REGISTER_ALLOCATOR(KIND, &memory);

int64_t workspace_size = 0;
c10::DataPtr workspace;  // taken at the first matmul and kept, as cuBLAS does

// Random numbers ---------------------------------------------------------------------------------

constexpr uint64_t OTHER = 0x9E3779B97F4A7C15;  // the same seed gives another stream than the CPU's

struct Random final : c10::GeneratorImpl {
  at::Generator inner;
  uint64_t seed_ = c10::detail::getNonDeterministicRandom();
  Random() : GeneratorImpl(HERE, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
             inner(at::detail::createCPUGenerator(seed_ ^ OTHER)) {}
  void set_current_seed(uint64_t seed) override {
    seed_ = seed;
    inner.set_current_seed(seed ^ OTHER);
  }
  void set_offset(uint64_t) override { TORCH_CHECK(false, "no offset"); }
  uint64_t get_offset() const override { TORCH_CHECK(false, "no offset"); }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_;
  }
  void set_state(const c10::TensorImpl& state) override {
    inner.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return inner.unsafeGetGeneratorImpl()->get_state();
  }
  static c10::DeviceType device_type() { return KIND; }
  Random* clone_impl() const override {
    auto* made = new Random();
    made->seed_ = seed_;
    made->inner = inner.clone();
    return made;
  }
};

const at::Generator& its_generator() {
  static at::Generator one = at::make_generator<Random>();
  return one;
}

at::Generator of_the_cpu(const at::Generator& one) {
  return static_cast<Random*>(one.unsafeGetGeneratorImpl())->inner;
}

struct Hooks final : at::PrivateUse1HooksInterface {
  void init() const override {}
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  bool isPinnedPtr(const void*) const override { return false; }
  c10::Device getDeviceFromPtr(void*) const override { return HERE; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return its_generator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    return at::make_generator<Random>();
  }
};

// Operations -------------------------------------------------------------------------------------

using Sizes = c10::SymIntArrayRef;

// The same bytes as a CPU tensor, which only this file ever holds.
at::Tensor on_the_cpu(const at::Tensor& x) {
  auto bytes = x.storage();
  auto shared = c10::Storage(c10::Storage::use_byte_size_t{}, bytes.nbytes(),
                             c10::DataPtr(bytes.mutable_data(), c10::Device(c10::kCPU)), nullptr, false);
  auto out = at::empty({0}, x.options().device(at::kCPU));
  out.set_(shared, x.storage_offset(), x.sizes(), x.strides());
  return out;
}

at::Tensor empty(Sizes size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &memory,
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(Sizes size, Sizes stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>,
                         std::optional<bool>) {
  return at::detail::empty_strided_generic(
      C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), &memory,
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  at::NoGradGuard none;
  auto target = to.is_privateuseone() ? on_the_cpu(to) : to;
  target.copy_(from.is_privateuseone() ? on_the_cpu(from) : from);
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Tensor view(const at::Tensor& x, Sizes size) {
  return at::native::view(x, C10_AS_INTARRAYREF_SLOW(size));
}

at::Tensor as_strided(const at::Tensor& x, Sizes size, Sizes stride,
                      std::optional<c10::SymInt> offset) {
  std::optional<int64_t> at_ = std::nullopt;
  if (offset) at_ = offset->guard_int(__FILE__, __LINE__);
  return at::native::as_strided_tensorimpl(x, C10_AS_INTARRAYREF_SLOW(size),
                                           C10_AS_INTARRAYREF_SLOW(stride), at_);
}

at::Tensor reshape_alias(const at::Tensor& x, Sizes size, Sizes stride) {
  return at::native::_reshape_alias(x, C10_AS_INTARRAYREF_SLOW(size),
                                    C10_AS_INTARRAYREF_SLOW(stride));
}

at::Tensor unfold(const at::Tensor& x, int64_t dim, int64_t size, int64_t step) {
  return at::native::unfold(x, dim, size, step);
}

at::Tensor& set_part(at::Tensor& x, at::Storage bytes, c10::SymInt offset, Sizes size,
                     Sizes stride) {
  return at::native::set_storage_cpu_(x, bytes, offset.guard_int(__FILE__, __LINE__),
                                      C10_AS_INTARRAYREF_SLOW(size),
                                      C10_AS_INTARRAYREF_SLOW(stride));
}

at::Tensor& set_whole(at::Tensor& x, at::Storage bytes) {
  const int64_t n = bytes.nbytes() / x.dtype().itemsize();
  return at::native::set_storage_cpu_(x, bytes, 0, {n}, {1});
}

at::Tensor& set_tensor(at::Tensor& x, const at::Tensor& other) {
  return at::native::set_tensor_(x, other);
}

const at::Tensor& resize(const at::Tensor& x, Sizes sizes, std::optional<at::MemoryFormat>) {
  auto size = C10_AS_INTARRAYREF_SLOW(sizes);
  const int64_t needed = at::detail::computeStorageNbytesContiguous(size, x.dtype().itemsize(),
                                                                    x.storage_offset());
  auto* bytes = x.storage().unsafeGetStorageImpl();
  if (static_cast<int64_t>(bytes->nbytes()) < needed) {
    auto larger = memory.allocate(needed);
    if (bytes->nbytes()) std::memcpy(larger.get(), bytes->data(), bytes->nbytes());
    bytes->set_data_ptr_noswap(std::move(larger));
    bytes->set_nbytes(needed);
  }
  x.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return x;
}

// The plain form of attention, made of matmuls: no fused kernel is here.
int64_t kind_of_attention(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                          const std::optional<at::Tensor>&, double, bool, std::optional<double>,
                          bool) {
  return 0;
}

// Every tensor with dimensions must be here; a number of the CPU (no dimensions), and the list of
// indices of an indexing, may come along, as on CUDA.
void refuse_another_device(const at::Tensor& x, const std::string& name) {
  TORCH_CHECK(!x.defined() || !x.device().is_cpu() || x.dim() == 0,
              "Expected all tensors to be on the same device, but found at least two devices, "
              "pretend:0 and cpu! (", name, ")");
}

// Dropout has no generator among its arguments: its mask comes from the device's own.
std::tuple<at::Tensor, at::Tensor> dropout(const at::Tensor& x, double p,
                                           std::optional<bool> train) {
  if (!train.value_or(true)) return {x.clone(), at::ones_like(x, x.options().dtype(at::kBool))};
  const auto mask = at::empty(x.sizes(), x.options().dtype(at::kBool)).bernoulli_(1 - p);
  return {p == 1 ? at::zeros_like(x) : x * mask * (1 / (1 - p)), mask};
}

void by_the_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const auto& name = op.operator_name().name;
  for (size_t i = 0; i < arguments.size(); ++i) {
    auto& value = (*stack)[stack->size() - arguments.size() + i];
    if (value.isTensor()) refuse_another_device(value.toTensor(), name);
    if (value.isOptionalTensorList()) continue;  // aten::index takes indices from the CPU, too
    if (value.isTensorList())
      for (const auto& x : value.toTensorList()) refuse_another_device(x, name);
    if (value.isGenerator()) {
      const auto kind = value.toGenerator().device().type();
      TORCH_CHECK(kind == KIND, "Expected a 'pretend' device type for generator but found '",
                  c10::DeviceTypeName(kind, true), "'");
      value = of_the_cpu(value.toGenerator());
    }
    else if (value.isNone() && arguments[i].name() == "generator")
      value = of_the_cpu(its_generator());
  }
  const bool matmul = name.size() >= 2 && name.compare(name.size() - 2, 2, "mm") == 0;
  if (matmul && workspace_size && !workspace) workspace = memory.allocate(workspace_size);
  at::native::cpu_fallback(op, stack);
}

}  // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&by_the_cpu>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("view", view);
  m.impl("as_strided", as_strided);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("unfold", unfold);
  m.impl("set_.source_Storage_storage_offset", set_part);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("set_.source_Storage", set_whole);
  m.impl("resize_", resize);
  m.impl("_fused_sdp_choice", kind_of_attention);
  m.impl("native_dropout", dropout);
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  KERNEL_PRIVATEUSEONE(matmul, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(mm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(bmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(addmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(scaled_dot_product_attention, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(layer_norm, fp32)
  KERNEL_PRIVATEUSEONE(softmax, int, fp32)
  KERNEL_PRIVATEUSEONE(log_softmax, int, fp32)
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  m.def("allocated", [] { return allocated.load(); });
  m.def("peak", [] { return peak.load(); });
  m.def("reserved", [] { return reserved.load(); });
  m.def("reset_peak", [] { peak = allocated.load(); });
  m.def("set_limit", [](int64_t n) { limit = n < 0 ? NO_LIMIT : n; });
  m.def("set_workspace", [](int64_t n) {
    workspace_size = n;
    workspace = c10::DataPtr();
  });
  m.def("generator", [] { return its_generator(); });
}
