"""A worker for tests: speaks the frames, and misbehaves as the argument `mode` of a request asks."""
import json
import os
import signal
import struct
import sys
import time

down, up = int(sys.argv[1]), int(sys.argv[2])


def read_exact(size):
    data = b""
    while len(data) < size:
        piece = os.read(down, size - len(data))
        if not piece:
            sys.exit(0)
        data += piece
    return data


def send(message):
    payload = json.dumps(message).encode()
    data = struct.pack(">I", len(payload)) + payload
    while data:
        data = data[os.write(up, data):]


calls = 0
while True:
    request = json.loads(read_exact(struct.unpack(">I", read_exact(4))[0]))
    calls += 1
    number, mode = request["id"], request.get("mode", "echo")
    if request["cmd"] == "shutdown":
        send({"v": 1, "id": number, "ok": True})
        sys.exit(0)
    print("working on", mode, flush=True)
    if mode == "echo":
        send({"v": 1, "id": number, "ok": True, "request": request, "calls": calls, "pid": os.getpid()})
    elif mode == "events":
        for i in range(3):
            send({"v": 1, "id": number, "event": "progress", "done": i})
        send({"v": 1, "id": number, "ok": True})
    elif mode == "refuse":
        send({"v": 1, "id": number, "ok": False, "error": {
            "code": "sample.no_model", "message": "there is no model.py", "remedy": "name a variant",
            "traceback": "Traceback: ..."}})
    elif mode == "refuse badly":
        send({"v": 1, "id": number, "ok": False})
    elif mode == "die":
        print("last words", flush=True)
        os._exit(3)
    elif mode == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif mode == "die inside a frame":
        os.write(up, struct.pack(">I", 100) + b"{")
        os._exit(0)
    elif mode == "hang":
        time.sleep(60)
    elif mode == "garbage":
        os.write(up, b"Hello, this is no frame at all")
        time.sleep(60)
    elif mode == "other id":
        send({"v": 1, "id": number + 1, "ok": True})
        time.sleep(60)
    elif mode == "unreadable":
        send({"v": 1, "id": -1, "ok": False, "error": {"code": "frame.json", "message": "a frame holds no JSON"}})
        time.sleep(60)
    elif mode == "no ok":
        send({"v": 1, "id": number})
        time.sleep(60)
    elif mode == "big":
        send({"v": 1, "id": number, "ok": True, "text": "x" * 3_000_000})
