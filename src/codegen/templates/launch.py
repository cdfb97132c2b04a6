# One entry a situation that a route was written for: shapes, strides and types of its tensors, and the literals it was
# given. An entry is a list: its key; the memory to allocate; the kernels with grid, warps, stages and constants; then the bound
# launchers for addresses that are all multiples of 16, and for others. Nothing here holds a tensor.
_LAST = {}
_READY = {}

# In these versions the launcher does nothing but look after scratch memory before it calls this C function.
_BARE = triton.__version__.startswith("3.6.")


def _plain_strides(shape, stride):
    # The stride of an axis of extent 1 says nothing, nor does any of a tensor without elements.
    out = []
    step = 1
    for extent, s in zip(reversed(shape), reversed(stride)):
        out.append(step if extent == 1 or 0 in shape else s)
        step *= extent
    return tuple(reversed(out))


def _entry(route, table, key, tensors):
    entry = _READY.get((route, key))
    if entry is None:
        wanted = list(key[:-1])
        for i in range(tensors):
            wanted[3 * i] = tuple(wanted[3 * i])
            wanted[3 * i + 1] = _plain_strides(wanted[3 * i], wanted[3 * i + 1])
        found = table.get(tuple(wanted))
        if found is None:
            known = "\n  ".join(str(k) for k in table)
            raise ValueError(f"{route} was not written for {tuple(wanted)}; it knows\n  {known}")
        entry = [key, found[0], found[1], found[2], None, None]
        _READY[(route, key)] = entry
    _LAST[route] = entry
    return entry


def _hooked():
    # A profiler that listens to launches gets the ordinary ones.
    try:
        hooks = (triton.knobs.runtime.launch_enter_hook, triton.knobs.runtime.launch_exit_hook)
    except AttributeError:
        return True
    return any(h is not None and (not hasattr(h, "calls") or h.calls) for h in hooks)


def _first_launch(entry, slot, device, arguments):
    """Launches the entry's kernels the ordinary way, which compiles them, and keeps their launchers if that is safe."""
    ready = []
    for (kernel, grid, warps, stages, constants), tensors in zip(entry[2], arguments):
        compiled = kernel[(grid,)](*tensors, *constants, num_warps=warps, num_stages=stages, enable_fp_fusion=False)
        ready.append((compiled, grid, constants))
    if any(not hasattr(c, name) for c, _, _ in ready for name in ("run", "function", "packed_metadata")):
        return  # interpreted, or another Triton
    current = driver.active.get_current_device()
    if _hooked() or (device.index or 0) != current:
        return
    bound = []
    for compiled, grid, constants in ready:
        run = compiled.run  # loads the kernel: before its function is read
        head = (compiled.function, compiled.packed_metadata, None, None, None)
        if _BARE and hasattr(run, "launch") and not (
            run.global_scratch_size or run.profile_scratch_size or run.launch_cooperative_grid or run.launch_pdl
        ):
            head = (head[0], False, False, None, None, *head[1:])
            run = run.launch
        bound.append((run, grid, head, constants))
    entry[slot] = (driver.active.get_current_stream, current, *bound)
